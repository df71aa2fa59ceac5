#include "binade/core/launcher.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace binade {
namespace {

/// Sets environment variables of launchers, and removes those of all launchers at the end.
struct Variables {
  explicit Variables(const std::map<std::string, std::string>& values) {
    remove();
    for (const auto& [name, value] : values) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() { remove(); }
  static void remove() {
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID", "SLURM_NTASKS",
                             "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_TASKS_PER_NODE"})
      ::unsetenv(name);
  }
};

void expect_place(int ranks, int local_rank, int local_ranks) {
  EXPECT_EQ(launched_ranks(), ranks);
  const LocalRank local = binade::local_rank();
  EXPECT_EQ(local.rank, local_rank);
  EXPECT_EQ(local.ranks, local_ranks);
}

TEST(Launcher, AProcessWithoutOneIsAlone) {
  // In a Slurm job, a program that is started without srun has these variables too.
  const Variables set({{"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "4"}});
  expect_place(1, 0, 1);
}

TEST(Launcher, MpirunTellsTheNumbersOfTheMachine) {
  const Variables set({{"OMPI_COMM_WORLD_SIZE", "6"},
                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                       {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}});
  expect_place(6, 1, 3);
}

TEST(Launcher, SrunTellsTheNumbersOfAllMachines) {
  const auto under_srun = [](const char* list, const char* node, const char* local) {
    return std::map<std::string, std::string>{{"PMIX_RANK", "5"},
                                              {"SLURM_NTASKS", "11"},
                                              {"SLURM_STEP_TASKS_PER_NODE", list},
                                              {"SLURM_NODEID", node},
                                              {"SLURM_LOCALID", local}};
  };
  for (const auto& [list, node, local, wanted] : {std::tuple{"11", "0", "5", 11},
                                                  {"4(x2),3", "0", "1", 4},
                                                  {"4(x2),3", "1", "1", 4},
                                                  {"4(x2),3", "2", "2", 3},
                                                  {"1,8,2", "1", "7", 8}}) {
    const Variables set(under_srun(list, node, local));
    expect_place(11, std::atoi(local), wanted);
  }
  for (const auto& [list, node, local] :
       {std::tuple{"4(x2),3", "3", "0"}, {"", "0", "0"}, {"4(x", "1", "0"}, {"none", "0", "0"}, {"2", "0", "2"}}) {
    const Variables set(under_srun(list, node, local));
    expect_place(11, 0, 1);
  }
}

}  // namespace
}  // namespace binade
