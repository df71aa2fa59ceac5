#include "binade/core/state_copy.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "binade/core/backend.h"
#include "binade/core/captured_graph.h"
#include "binade/core/gpus.h"
#include "binade/core/memory_plan.h"
#include "binade/cuda/gpu.h"
#include "tests/cuda/agree.h"
#include "tests/cuda/device.h"

// Copies of a state on a device, which checkpoints make while steps continue.
namespace binade {
namespace {

constexpr std::int64_t kPart = std::int64_t{8}
                               << 20;  // size of a part of the page-locked memory through which copies go

/// Returns a state with tensors around the sizes of a part and of a block, a slice that is not contiguous, and entries
/// that are not tensors.
StateDict state_on(Device device) {
  StateDict state;
  std::uint64_t tag = 1;
  for (const std::int64_t count : {8L, 256L << 10, (256L << 10) + 8, kPart - 8, kPart, kPart + 8, 2 * kPart + 4096})
    state.put(fmt::format("model/{:03}", tag), random_values({count / 8}, tag).to(device)), ++tag;
  state.put("model/empty", Tensor::empty({0, 4}, DType::f32, device));
  state.put("model/slice", random_values({64, 32}, tag).to(DType::f32).to(device).channel_slice(3, 7));
  state.put("model/uneven", random_values({5}, tag).to(DType::bf16).to(device).narrow(1, 3));
  state.put("amp/scale", 2.0);
  return state;
}

void expect_equal(const StateDict& got, const StateDict& wanted) {
  ASSERT_EQ(got.values().size(), wanted.values().size());
  for (const auto& [name, value] : wanted.values()) {
    if (!std::holds_alternative<Tensor>(value)) continue;
    const Tensor a = got.tensor(name), b = std::get<Tensor>(value).on_host();
    EXPECT_EQ(a.device(), Device::cpu());
    EXPECT_TRUE(a.contiguous());
    EXPECT_EQ(a.shape(), b.shape());
    ASSERT_EQ(a.dtype(), b.dtype());
    EXPECT_TRUE(a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0) << name;
  }
  EXPECT_EQ(got.number("amp/scale"), 2.0);
}

void overwrite(const StateDict& state, double with) {
  for (const auto& [name, value] : state.values())
    if (const auto* tensor = std::get_if<Tensor>(&value)) Tensor(*tensor).fill(with);
}

TEST(StateCopies, HaveTheStateOfTheTimeOfTheCall) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const StateDict here = state_on(Device::cpu()), there = state_on(test_device());
  const StateDict copies = cloned(there);
  overwrite(there, 7);
  for (const auto& [name, value] : copies.values())
    if (const auto* tensor = std::get_if<Tensor>(&value)) {
      EXPECT_EQ(tensor->device(), test_device());
      EXPECT_FALSE(tensor->shares_storage_with(there.tensor(name))) << name;
    }
  expect_equal(on_host(copies), here);
  expect_equal(on_host(here), here);
}

/// With BINADE_SIMT_STREAMS=late, none of the submitted work has run when the copies are requested.
TEST(StateCopies, ReachTheHostWhileOtherThreadsSubmitAndCapture) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const StateDict here = state_on(Device::cpu());
  std::atomic<bool> done = false;
  for (int round = 0; round < 3; ++round) {
    const StateDict there = state_on(test_device());
    StateDict copies = cloned(there);
    done = false;
    std::thread writer([&] {
      expect_equal(on_host(copies), here);
      done = true;
    });
    Tensor work = Tensor::zeros({1024}, DType::f32, test_device());
    for (int k = 0; k < 4 || !done; ++k) {
      overwrite(there, k);
      MemoryTrace nothing;
      const auto recording = backend_of(test_device()).capture([&] { work.fill(k); }, nothing);
      if (recording) recording->run();
    }
    writer.join();
  }
}

TEST(StateCopies, DoNotMakeTheSubmittingThreadWait) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const StateDict there = state_on(test_device());
  backend_of(test_device()).synchronize(Stream{test_device()});
  const std::uint64_t before = cuda::waits();
  const StateDict copies = cloned(there);
  EXPECT_EQ(cuda::waits(), before);
}

}  // namespace
}  // namespace binade
