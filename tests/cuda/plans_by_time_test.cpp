#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "binade/core/backend.h"
#include "binade/core/captured_graph.h"
#include "binade/core/gpus.h"
#include "binade/core/kernels/table.h"
#include "binade/core/memory_plan.h"
#include "binade/core/ops/products.h"
#include "binade/core/random.h"
#include "binade/core/tensor.h"
#include "tests/io/scratch_folder.h"

// Autotuning of plans in a whole process, with a substitute library whose plans take the times in BINADE_SIMT_TIMES
// (3,1,2: the second plan is the fastest).
namespace binade {
namespace {

/// Computes a product on the device, for which the library has plans.
void multiply(std::int64_t size) {
  const Tensor x = Tensor::full({size, size}, 1, DType::f32).to(Device::cuda());
  Tensor y = Tensor::empty({size, size}, DType::f32, Device::cuda());
  GemmArgs g{.m = size, .n = size, .k = size, .in = DType::f32, .out = DType::f32};
  g.a = g.b = x.raw();
  g.c = y.mutable_raw();
  g.a_row = g.b_row = g.c_row = size;
  kernels(Device::cuda()).gemm(g);
}

bool has(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

/// Returns the content of the only file below `folder`.
std::string kept_in(const std::string& folder) {
  std::string all;
  if (std::filesystem::exists(folder))
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) {
        std::ifstream in(entry.path());
        all.append(std::istreambuf_iterator<char>(in), {});
      }
  return all;
}

/// Runs a new process with other times. Its exit status is 0 if it used the plan that the machine has stored.
int later_process(int begin) {
  char word = 0;
  if (read(begin, &word, 1) != 1) return 2;
  setenv("BINADE_SIMT_TIMES", "1,3,2", 1);
  gpus::open(0);
  gpus::choose_plans({});
  multiply(8);
  multiply(12);
  if (!has(gpus::plans(), "product 8 8 8 = 1\n")) return 3;
  if (!has(gpus::plans(), "product 12 12 12 = 0\n")) return 4;
  return has(gpus::notes(), "timed once") ? 0 : 5;
}

TEST(CudaPlansByTime, AreStoredForTheMachine) {
  if (gpus::count() == 0 || std::getenv("BINADE_SIMT_TIMES") == nullptr)
    GTEST_SKIP() << "needs the emulated device with the times of BINADE_SIMT_TIMES";
  const io::ScratchFolder folder;
  setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();  // before this process opens the device
  if (child == 0) _exit(later_process(ends[0]));

  Backend& gpu = gpus::open(0);
  multiply(4);
  EXPECT_TRUE(has(gpus::plans(), "product 4 4 4 = 0\n")) << "nobody has asked for times: " << gpus::plans();
  EXPECT_EQ(kept_in(folder.path()), "");
  gpus::choose_plans({.timed = false});
  multiply(5);
  EXPECT_TRUE(has(gpus::plans(), "product 5 5 5 = 0\n"));
  EXPECT_EQ(kept_in(folder.path()), "");

  gpus::choose_plans({});
  multiply(8);
  EXPECT_TRUE(has(gpus::plans(), "product 8 8 8 = 1\n")) << gpus::plans();
  const std::string kept = kept_in(folder.path());
  EXPECT_TRUE(has(kept, "product 8 8 8 = 1\n")) << kept;
  EXPECT_TRUE(has(gpus::notes(), "timed once on this machine")) << gpus::notes();

  // The plans of a run take precedence over those of the machine, and are not stored for the machine.
  const std::string title = gpus::plans().substr(0, gpus::plans().find('\n') + 1);
  EXPECT_EQ(gpus::use_plans(title + "product 8 8 8 = 2\nproduct 9 9 9 = 0\n"), 2);
  multiply(8);
  multiply(9);
  EXPECT_TRUE(has(gpus::plans(), "product 8 8 8 = 2\n")) << gpus::plans();
  EXPECT_TRUE(has(gpus::plans(), "product 9 9 9 = 0\n")) << gpus::plans();
  EXPECT_EQ(kept_in(folder.path()), kept);

  EXPECT_THROW(gpu.capture([] { multiply(10); }, {}), Error) << "nothing is timed while a step is recorded";
  EXPECT_EQ(kept_in(folder.path()), kept);

  ASSERT_EQ(write(ends[1], "x", 1), 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);

  gpus::choose_plans({.deterministic = false});
  multiply(8);
  multiply(11);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path("binade/plans")), {}), 2)
      << "what may add in any order has a file of its own";
}

}  // namespace
}  // namespace binade
