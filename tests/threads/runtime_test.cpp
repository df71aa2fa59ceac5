// Several Runtimes in a process, each on its own thread, and threads that use the Runtime of another thread.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "tests/threads/crowd.h"
#include "tests/threads/small_training.h"

namespace binade {
namespace {

/// Runs `work` on a new thread and returns the text of the error that it throws.
std::string error_on_a_thread(const std::function<void()>& work) {
  std::string text;
  std::thread([&] {
    try {
      work();
    } catch (const Error& error) {
      text = error.what();
    }
  }).join();
  return text;
}

Tensor dropped(const Tensor& x) {
  step_context().next = {};
  return dropout(x, 0.5).value();
}

TEST(Runtimes, OnSeparateThreadsTrainAsEachDoesAlone) {
  const char* const policies[] = {"fp32", "fp16", "bf16", "pure-bf16"};
  std::string alone[4], together[4];
  for (int i = 0; i < 4; ++i) alone[i] = test::trained(static_cast<std::uint64_t>(i), policies[i], 6);
  test::Crowd crowd(4);
  crowd.run([&](int i) { together[i] = test::trained(static_cast<std::uint64_t>(i), policies[i], 6); });
  for (int i = 0; i < 4; ++i) EXPECT_EQ(together[i], alone[i]) << policies[i];
}

TEST(Runtimes, AThreadWithoutARuntimeUsesTheOnlyOne) {
  const Runtime runtime({.seed = 7, .threads = 3});
  const Tensor x = Tensor::full({64}, 1);
  const Tensor expected = dropped(x);
  std::thread([&] {
    EXPECT_EQ(&Runtime::current(), &runtime);
    EXPECT_EQ(num_threads(), 3);
    EXPECT_EQ(current_seed(), 7u);
    EXPECT_TRUE(test::same_bits(dropped(x), expected));
  }).join();
}

TEST(Runtimes, AThreadWithoutARuntimeNeedsAScopeIfThereAreSeveral) {
  Runtime here({.seed = 7, .threads = 1});
  test::Crowd crowd(1);
  std::optional<Runtime> there;
  crowd.run([&](int) { there.emplace(RuntimeOptions{.seed = 8, .threads = 2}); });
  EXPECT_EQ(&Runtime::current(), &here);
  crowd.run([&](int) { EXPECT_EQ(&Runtime::current(), &*there); });

  const std::string words = error_on_a_thread([] { nn::Linear({.in = 2, .out = 2}); });
  EXPECT_EQ(words,
            "Runtime: this thread has none, and the process has 2; open a binade::RuntimeScope for one of them on "
            "this thread");
  EXPECT_NE(error_on_a_thread([] { Runtime::current(); }), "");
  EXPECT_EQ(error_on_a_thread([&] {
              for (Runtime* runtime : {&here, &*there}) {
                const RuntimeScope scope(*runtime);
                EXPECT_EQ(&Runtime::current(), runtime);
                EXPECT_EQ(current_seed(), runtime->seed());
                EXPECT_EQ(num_threads(), runtime == &here ? 1 : 2);
              }
            }),
            "");
  crowd.run([&](int) { there.reset(); });
  EXPECT_EQ(error_on_a_thread([&] { EXPECT_EQ(&Runtime::current(), &here); }), "");
}

TEST(Runtimes, AScopeRestoresTheSeed) {
  Runtime runtime({.seed = 7});
  step_context().seed = 3;
  { const RuntimeScope scope(runtime); }
  EXPECT_EQ(current_seed(), 3u);
}

TEST(Runtimes, AreLimitedToOnePerThread) {
  const Runtime runtime;
  try {
    const Runtime second;
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(),
                 "Runtime: this thread has one already; destroy it before making another, or make the "
                 "other on a thread of its own");
  }
}

TEST(Runtimes, WithoutARuntimeCurrentThrowsAndTheDeviceIsTheCpu) {
  EXPECT_EQ(Runtime::current_device(), Device::cpu());
  EXPECT_EQ(Runtime::find_current(), nullptr);
  EXPECT_NE(error_on_a_thread([] { Runtime::current(); }).find("no Runtime exists; make a binade::Runtime"),
            std::string::npos);
}

/// A Runtime may be destroyed on another thread. After that, the thread that made it has no Runtime.
TEST(Runtimes, MayBeDestroyedOnAnotherThread) {
  auto runtime = std::make_unique<Runtime>(RuntimeOptions{.seed = 5});
  const RuntimeScope scope(*runtime);
  std::thread([&] { runtime.reset(); }).join();
  EXPECT_EQ(Runtime::find_current(), nullptr);
  const Runtime next;
  EXPECT_EQ(&Runtime::current(), &next);
}

TEST(Runtimes, AreInheritedByTheWorkerOfALoader) {
  Runtime runtime({.seed = 1});
  struct Batch {
    io::BatchOrigin origin{};
    std::uint64_t seed = 0;
  };
  test::Crowd crowd(2);
  std::uint64_t seeds[2] = {};
  crowd.run([&](int i) {
    const Runtime own({.seed = 20 + static_cast<std::uint64_t>(i)});
    io::Loader<Batch> loader({.batch = 1, .samples = 4},
                             [](const io::BatchOrigin&) { return Batch{.seed = Runtime::current().seed()}; });
    seeds[i] = loader.next().seed;
  });
  EXPECT_EQ(seeds[0], 20u);
  EXPECT_EQ(seeds[1], 21u);
}

TEST(Runtimes, AreInheritedByTheirCpuThreads) {
  Runtime runtime({.threads = 2});
  test::Crowd crowd(1);
  std::optional<Runtime> other;
  crowd.run([&](int) { other.emplace(); });
  const auto caller = std::this_thread::get_id();
  std::atomic<Runtime*> seen = nullptr;
  while (seen == nullptr)  // until a CPU thread of the Runtime has run a block
    parallel_blocks(8, [&](std::int64_t) {
      if (std::this_thread::get_id() != caller)
        seen = Runtime::find_current();
      else
        std::this_thread::yield();
    });
  EXPECT_EQ(seen, &runtime);
  crowd.run([&](int) { other.reset(); });
}

/// Ops of several threads take turns on the CPU threads of one Runtime, and run at the same time on different Runtimes.
TEST(Runtimes, ComputeTheSameBitsForManyThreads) {
  Runtime runtime({.seed = 1, .threads = 4});
  const Tensor a = test::image(1, 600).reshape({60, 60}), b = test::image(2, 600).reshape({60, 60});
  const auto product = [&] {
    Variable y(a);
    for (int i = 0; i < 20; ++i) y = matmul(y, b) * 0.05;
    return y.value();
  };
  const Tensor expected = product();
  test::Crowd crowd(8);
  std::vector<Tensor> got(8);
  crowd.run([&](int i) {
    std::optional<Runtime> own;
    if (i % 2 == 1) own.emplace(RuntimeOptions{.threads = 1 + i / 2});
    const RuntimeScope scope(own ? *own : runtime);
    got[static_cast<std::size_t>(i)] = product();
  });
  for (const Tensor& y : got) EXPECT_TRUE(test::same_bits(y, expected));
}

}  // namespace
}  // namespace binade
