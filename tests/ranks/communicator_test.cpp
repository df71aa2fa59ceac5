#include "binade/core/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "binade/core/thread_ranks.h"
#include "tests/ranks/expect_error.h"

namespace binade {
namespace {

using Shared = std::shared_ptr<Communicator>;
constexpr ThreadRanksOptions kOptions{.deadline = std::chrono::seconds(60)};

Bytes bytes(int seed, std::size_t size) {
  Bytes all(size);
  for (std::size_t i = 0; i < size; ++i) all[i] = static_cast<std::byte>(static_cast<std::size_t>(seed) * 31 + i * 7);
  return all;
}

TEST(ThreadRanks, GatherReturnsTheBytesOfEveryRankInOrder) {
  for (const int ranks : {1, 2, 3, 5, 8})
    for (const std::uint64_t delays : {0, 7})
      run_thread_ranks(
          ranks,
          [&](const Shared& self) {
            for (int round = 0; round < 5; ++round) {
              const auto size = [&](int rank) { return static_cast<std::size_t>((rank + round) % 4 * 100); };
              const std::vector<Bytes> all = self->gather(bytes(self->rank(), size(self->rank())), "a test");
              ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks));
              for (int rank = 0; rank < ranks; ++rank)
                EXPECT_EQ(all[static_cast<std::size_t>(rank)], bytes(rank, size(rank)));
            }
          },
          {.deadline = std::chrono::seconds(60), .delays = delays});
}

TEST(ThreadRanks, BroadcastSendsTheBytesOfOneRank) {
  run_thread_ranks(
      4,
      [](const Shared& self) {
        for (int root = 0; root < 4; ++root)
          EXPECT_EQ(self->broadcast(bytes(self->rank(), 50 + static_cast<std::size_t>(self->rank())), root, "a test"),
                    bytes(root, 50 + static_cast<std::size_t>(root)));
      },
      kOptions);
}

TEST(ThreadRanks, PiecesOfUnequalSizesArriveInOrder) {
  run_thread_ranks(
      3,
      [](const Shared& self) {
        const int next = (self->rank() + 1) % 3, before = (self->rank() + 2) % 3;
        const Bytes first = bytes(self->rank(), 10), second = bytes(10 + self->rank(), 0),
                    third = bytes(20 + self->rank(), 3000);
        Bytes a(10), b(0), c(3000);
        const OutgoingPiece outgoing[] = {{next, first}, {next, second}, {next, third}};
        const IncomingPiece incoming[] = {{before, a}, {before, b}, {before, c}};
        self->exchange(outgoing, incoming, "a test");
        EXPECT_EQ(a, bytes(before, 10));
        EXPECT_EQ(c, bytes(20 + before, 3000));
      },
      kOptions);
}

TEST(ThreadRanks, NobodyPassesABarrierBeforeTheLastRankReachesIt) {
  std::atomic<int> reached = 0;
  run_thread_ranks(
      4,
      [&](const Shared& self) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10 * self->rank()));
        ++reached;
        self->barrier("a test");
        EXPECT_EQ(reached, 4);
      },
      kOptions);
}

TEST(ThreadRanks, ADeadlineNamesTheRankThatDoesNotAnswer) {
  const auto begin = std::chrono::steady_clock::now();
  test::expect_error<RankError>(
      [&] {
        run_thread_ranks(3,
                         [](const Shared& self) {
                           if (self->rank() == 1)
                             std::this_thread::sleep_for(std::chrono::seconds(5));
                           else
                             self->barrier("the end of lap 4");
                         },
                         {.deadline = std::chrono::seconds(2)});
      },
      {"waited 2 s for rank 1 in the end of lap 4"});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(ThreadRanks, AnExceptionOfOneRankEndsAllAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<int> told = 0;
  test::expect_error<DataError>(
      [&] {
        run_thread_ranks(
            4,
            [&](const Shared& self) {
              if (self->rank() == 2) throw DataError("file 7 is torn");
              try {
                self->barrier("a test");
              } catch (const RankError& error) {
                if (std::string(error.what()).find("rank 2 has ended: file 7 is torn") != std::string::npos) ++told;
                throw;
              }
            },
            kOptions);
      },
      {"file 7 is torn"});
  EXPECT_EQ(told, 3);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(ThreadRanks, ARankThatReturnsEarlyIsNamed) {
  test::expect_error<RankError>(
      [] {
        run_thread_ranks(
            2,
            [](const Shared& self) {
              if (self->rank() == 0) self->barrier("a test");
            },
            kOptions);
      },
      {"rank 1 has ended", "rank 0 waited for it in a test"});
}

TEST(ThreadRanks, PiecesOfAnotherSizeAreRefused) {
  test::expect_error<RankError>(
      [] {
        run_thread_ranks(
            2,
            [](const Shared& self) {
              Bytes in(self->rank() == 0 ? 8 : 4);
              const Bytes out(4);
              const OutgoingPiece outgoing[] = {{1 - self->rank(), out}};
              const IncomingPiece incoming[] = {{1 - self->rank(), in}};
              self->exchange(outgoing, incoming, "a test");
            },
            kOptions);
      },
      {"wanted 8 bytes from rank 1 in a test, got 4"});
}

TEST(Alone, IsARankWithoutOthers) {
  const Shared self = alone();
  EXPECT_TRUE(self->alone());
  EXPECT_EQ(self->gather(bytes(1, 9), "a test"), std::vector<Bytes>{bytes(1, 9)});
  EXPECT_EQ(self->broadcast(bytes(2, 9), 0, "a test"), bytes(2, 9));
  self->barrier("a test");
  const Bytes out(1);
  const OutgoingPiece to_itself[] = {{0, out}};
  EXPECT_THROW(self->exchange(to_itself, {}, "a test"), ArgumentError);
  EXPECT_EQ(self->traffic().bytes_sent, 0);
}

TEST(ThreadRanks, CountsWhatItSends) {
  run_thread_ranks(
      2,
      [](const Shared& self) {
        self->gather(bytes(0, 100), "a test");
        EXPECT_EQ(self->traffic().exchanges, 2);
        EXPECT_EQ(self->traffic().bytes_sent, 108);
      },
      kOptions);
}

}  // namespace
}  // namespace binade
