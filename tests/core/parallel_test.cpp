#include "binade/core/parallel.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/core/no_threads.h"

namespace binade {
namespace {

class Parallel : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { set_num_threads(GetParam()); }
  void TearDown() override { set_num_threads(0); }
};

TEST_P(Parallel, EveryElementIsVisitedOnce) {
  for (const std::int64_t count : {0, 1, 7, 64, 1000}) {
    std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
    parallel_for(count, 7, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
    });
    for (const auto& v : visits) EXPECT_EQ(v, 1);
  }
}

TEST_P(Parallel, ThrowsTheExceptionOfTheLowestBlock) {
  for (int round = 0; round < 20; ++round) {
    try {
      parallel_blocks(64, [](std::int64_t block) {
        if (block >= 11) throw std::runtime_error(std::to_string(block));
      });
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "11");
    }
  }
}

TEST_P(Parallel, NestedRegionsRunSerially) {
  std::atomic<int> inner = 0;
  parallel_blocks(4, [&](std::int64_t) { parallel_blocks(5, [&](std::int64_t) { ++inner; }); });
  EXPECT_EQ(inner, 20);
}

/// Parallel regions over the same blocks give each block to the same thread: a pool thread begins in the middle of the
/// blocks. The caller processes the blocks that no pool thread takes.
TEST(ParallelPool, EachThreadBeginsWithItsOwnBlocks) {
  set_num_threads(2);
  constexpr std::int64_t kNone = -1;
  for (int round = 0; round < 20; ++round) {
    std::atomic<std::int64_t> first_taken = kNone;
    std::atomic<int> done = 0;
    const auto caller = std::this_thread::get_id();
    const auto patience = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    parallel_blocks(8, [&](std::int64_t block) {
      std::int64_t none = kNone;
      if (std::this_thread::get_id() != caller) first_taken.compare_exchange_strong(none, block);
      while (block == 0 && first_taken == kNone && std::chrono::steady_clock::now() < patience)
        std::this_thread::yield();
      ++done;
    });
    EXPECT_EQ(first_taken, 4);
    EXPECT_EQ(done, 8);
  }
  set_num_threads(0);
}

/// A pool thread that is late for one region must miss neither the next region nor the end of the pool. A lost wake-up
/// would hang this test.
TEST(ParallelPool, TheNumberOfThreadsMayChangeBetweenRegions) {
  std::atomic<std::int64_t> sum = 0;
  for (int round = 0; round < 600; ++round) {
    set_num_threads(2 + round % 7);
    parallel_blocks(2 + round % 3, [&](std::int64_t block) { sum += block + 1; });
  }
  set_num_threads(0);
  std::int64_t expected = 0;
  for (int round = 0; round < 600; ++round)
    for (int block = 0; block < 2 + round % 3; ++block) expected += block + 1;
  EXPECT_EQ(sum, expected);
}

/// After fork() the child has no pool threads. It must compute alone and exit.
TEST(ParallelPool, AForkedChildComputesAndExits) {
  set_num_threads(4);
  parallel_blocks(64, [](std::int64_t) {});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> sum = 0;
    parallel_blocks(64, [&](std::int64_t) { ++sum; });
    std::exit(sum == 64 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  set_num_threads(0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

std::ptrdiff_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

/// Waits until the process has `count` threads, because Linux lists a thread for a short time after it was joined.
/// Returns the number of threads.
std::ptrdiff_t threads_once_they_are(std::ptrdiff_t count) {
  for (int i = 0; i < 1000 && threads_of_this_process() != count; ++i) usleep(1000);
  return threads_of_this_process();
}

/// Before a fix, the std::system_error of std::thread reached the caller, without the name of an op.
TEST(ParallelPool, IfNoThreadCanStartTheCallerDoesTheWork) {
  set_num_threads(2);
  parallel_blocks(64, [](std::int64_t) {});
  const std::ptrdiff_t with_one = threads_of_this_process();
  std::atomic<int> sum = 0;
  const auto add_64 = [&] { parallel_blocks(64, [&](std::int64_t) { ++sum; }); };
  set_num_threads(5);
  {
    const test::NoThreads none;
    add_64();
    EXPECT_EQ(threads_once_they_are(with_one - 1), with_one - 1);
  }
  for (int region = 0; region < 1000; ++region) add_64();
  EXPECT_EQ(threads_once_they_are(with_one + 3), with_one + 3);
  EXPECT_EQ(sum, 64 * 1001);
  set_num_threads(0);
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, ::testing::Values(1, 2, 3, 8));

}  // namespace
}  // namespace binade
