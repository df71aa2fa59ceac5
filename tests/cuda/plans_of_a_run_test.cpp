#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "binade/amp/state_hash.h"
#include "binade/core/gpus.h"
#include "binade/core/kernels/table.h"
#include "binade/core/ops/products.h"
#include "binade/io/checkpoint/store.h"
#include "binade/run/training_run.h"
#include "tests/amp/toy.h"
#include "tests/io/scratch_folder.h"

// A run stores the library plans of its products. The network is trained on the CPU, and the closure also computes
// products on the device. This test is a separate program.
namespace binade::amp {
namespace {

/// Computes x times x on the device; the substitute library computes it in f32.
void multiply(DType dtype) {
  const Tensor x = toy::random({8, 8}, 5).to(dtype).to(Device::cuda());
  Tensor y = Tensor::empty({8, 8}, dtype, Device::cuda());
  GemmArgs g{.m = 8, .n = 8, .k = 8, .in = dtype, .out = dtype};
  g.a = g.b = x.raw();
  g.c = y.mutable_raw();
  g.a_row = g.b_row = g.c_row = 8;
  kernels(Device::cuda()).gemm(g);
}

/// Trains to step 4 in `folder` (resumes if possible), with two products on the device in each step. Returns the state
/// hash. Calls `begun` before the first step.
std::string train(
    const std::string& folder, const std::function<void()>& begun = [] {}) {
  toy::Training net;
  TrainingRun run(net.trainer, {.folder = folder, .steps = 4, .checkpoint_every = 2, .log_every = 1000});
  run.resume_if_possible();
  begun();
  while (run.goes_on())
    run.step(toy::batch(static_cast<std::uint32_t>(net.trainer.steps())), [&](const toy::Batch& b) {
      multiply(DType::f32);
      multiply(DType::f64);
      return toy::loss(net.net, b);
    });
  return net.trainer.state_hash();
}

/// Copies the checkpoint of step 2 from the run `from` to a new run `to`, with `plans` instead of its plans.
void copy_with_plans(const io::ScratchFolder& folder, const std::string& from, const std::string& to,
                     const std::string& plans) {
  std::filesystem::create_directories(folder.path(to + "/checkpoints"));
  const std::string file = "/checkpoints/ckpt-000000000002.h5";
  std::filesystem::copy_file(folder.path(from + file), folder.path(to + file));
  io::CheckpointStore store(folder.path(to + "/checkpoints"));
  StateDict state;
  const io::LoadedCheckpoint found = store.load_newest();
  for (const auto& [name, value] : found.state.values())
    if (name != "env/plans") state.put(name, value);
  state.put("env/plans", plans);
  store.save({.step = 2, .state = state, .state_hash = state_hash(state)});
}

TEST(CudaPlansOfARun, AreStoredAndLoadedBeforeTheNextStep) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  gpus::open(0);
  const io::ScratchFolder folder;
  testing::internal::CaptureStderr();
  const std::string hash = train(folder.path("whole"));
  const std::string told = testing::internal::GetCapturedStderr(), plans = gpus::plans(), notes = gpus::notes();
  io::CheckpointStore store(folder.path("whole/checkpoints"));
  const StateDict state = store.load_newest().state;
  EXPECT_EQ(state.contains("env/plans"), !plans.empty());
  EXPECT_EQ(std::filesystem::exists(folder.path("whole/plans.txt")), !plans.empty());
  for (std::size_t from = 0, to; (to = notes.find('\n', from)) != notes.npos; from = to + 1) {
    const std::string line = "cuda: " + notes.substr(from, to - from);
    EXPECT_NE(told.find(line), std::string::npos) << line;
    EXPECT_NE(folder.read("whole/events.jsonl").find(line), std::string::npos) << line;
  }
  const bool emulated = std::getenv("BINADE_SIMT_LIBRARY") != nullptr;
  EXPECT_EQ(notes.find("product 8 8 8: computed by Binade's own kernel") != notes.npos, emulated);
  ASSERT_FALSE(plans.empty()) << "no library was asked: on the emulated device, BINADE_SIMT_LIBRARY=1 has one";
  EXPECT_EQ(state.text("env/plans"), plans);
  EXPECT_EQ(folder.read("whole/plans.txt"), plans);

  const std::string more = emulated ? "product 9 7 7\n" : "";
  copy_with_plans(folder, "whole", "again", plans + more);
  testing::internal::CaptureStderr();
  EXPECT_EQ(train(folder.path("again"), [&] { EXPECT_EQ(gpus::plans(), plans + more); }), hash);
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("library plans"), std::string::npos);
  EXPECT_EQ(folder.read("again/plans.txt"), plans + more);

  copy_with_plans(folder, "whole", "elsewhere", "another library 3 sm_10\nproduct 8 8 8888\n" + plans);
  testing::internal::CaptureStderr();
  EXPECT_EQ(train(folder.path("elsewhere"), [&] { EXPECT_EQ(gpus::plans(), plans + more); }), hash);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("2 of"), std::string::npos);
  EXPECT_NE(folder.read("elsewhere/events.jsonl").find("another library 3 sm_10"), std::string::npos);
  EXPECT_EQ(folder.read("elsewhere/plans.txt").find("8888"), std::string::npos);
}

}  // namespace
}  // namespace binade::amp
