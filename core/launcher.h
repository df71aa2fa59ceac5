#pragma once

#include <memory>

#include "binade/core/communicator.h"

/// Connects a program with the other ranks of its job. Implemented in mpi/launcher.cpp, so that core/ includes no
/// header of mpi/. The MPI module is loaded at run time, and only if a launcher has started several processes.
namespace binade {

/// Returns the number of processes that the launcher of this one (mpirun, srun) has started for the program; 1 without
/// a launcher. Reads environment variables only.
int launched_ranks();

/// The number of this process among those that run on this machine, from 0, and how many these are. 0 and 1 without a
/// launcher, or if the launcher does not say.
struct LocalRank {
  int rank = 0, ranks = 1;
};
LocalRank local_rank();

/// Returns the connection with the other processes that the launcher has started. Without a launcher, or if it has
/// started one process, returns alone() and opens no engine. Call it once, before other threads are started, and keep
/// the result until the program ends, because its destructor closes MPI.
///
///     amp::Trainer trainer(runtime, model, optimizer, {.accumulate = 8, .ranks = ranks_from_launcher()});
///
/// Throws ArgumentError if Binade was built without MPI or the module cannot be opened, and RankError if MPI fails.
std::shared_ptr<Communicator> ranks_from_launcher();

}  // namespace binade
