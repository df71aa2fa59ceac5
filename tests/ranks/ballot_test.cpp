#include "binade/amp/ranks/ballot.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/ranks/expect_error.h"

namespace binade::amp {
namespace {

/// Three ranks with two micro-batches each, whose losses are 0 to 5.
std::vector<Ballot> ballots() {
  std::vector<Ballot> all(3);
  for (int rank = 0; rank < 3; ++rank) {
    Ballot& ballot = all[static_cast<std::size_t>(rank)];
    ballot.common = {.seed = 1, .step = 12, .attempt = 1, .micro_batches = 6, .leaves = 6};
    ballot.losses = {{2 * rank, 2.0 * rank}, {2 * rank + 1, 2.0 * rank + 1}};
    ballot.next_op = {.tape_index = 10 + rank, .call_index = 9 - rank};
  }
  return all;
}

void spoil(Ballot& ballot, std::int32_t micro_batch, AbortCause cause) {
  while (!ballot.losses.empty() && ballot.losses.back().micro_batch > micro_batch) ballot.losses.pop_back();
  if (cause == AbortCause::kLoss) ballot.losses.back().value = std::numeric_limits<double>::quiet_NaN();
  ballot.bad_micro_batch = micro_batch;
  ballot.cause = cause;
}

TEST(Ballot, AllGoodMeansCommitWithTheMeanLoss) {
  const Vote vote = verdict_of(ballots());
  EXPECT_EQ(vote.cause, AbortCause::kNone);
  EXPECT_EQ(vote.bad_rank, -1);
  EXPECT_EQ(vote.loss, 15.0 / 6);
  EXPECT_EQ(vote.next_op.tape_index, 12);
  EXPECT_EQ(vote.next_op.call_index, 9);
}

TEST(Ballot, TheFirstBadMicroBatchDecidesForAll) {
  constexpr AbortCause kCauses[] = {AbortCause::kNone, AbortCause::kLoss,       AbortCause::kOverflow,
                                    AbortCause::kNan,  AbortCause::kStatistics, AbortCause::kBadData};
  // Every combination of causes, in the second micro-batch of each rank.
  for (const AbortCause a : kCauses)
    for (const AbortCause b : kCauses)
      for (const AbortCause c : kCauses) {
        std::vector<Ballot> all = ballots();
        const AbortCause causes[] = {a, b, c};
        int first = -1;
        for (int rank = 2; rank >= 0; --rank) {
          if (causes[rank] == AbortCause::kNone) continue;
          spoil(all[static_cast<std::size_t>(rank)], 2 * rank + 1, causes[rank]);
          first = rank;
        }
        const Vote vote = verdict_of(all);
        EXPECT_EQ(vote.bad_rank, first);
        EXPECT_EQ(vote.bad_micro_batch, first < 0 ? -1 : 2 * first + 1);
        EXPECT_EQ(vote.cause, first < 0 ? AbortCause::kNone : causes[first]);
      }
}

TEST(Ballot, AnAbortReportsTheLossThatOneRankWouldReport) {
  std::vector<Ballot> all = ballots();
  spoil(all[1], 2, AbortCause::kOverflow);
  EXPECT_EQ(verdict_of(all).loss, (0.0 + 1 + 2) / 3);  // one rank would have stopped here
  all = ballots();
  spoil(all[1], 3, AbortCause::kLoss);
  EXPECT_TRUE(std::isnan(verdict_of(all).loss));
}

TEST(Ballot, SurvivesTheWay) {
  Ballot ballot = ballots()[1];
  spoil(ballot, 2, AbortCause::kBadData);
  ballot.refused = "label 12 of 10";
  ballot.bad_buffer = "norm.running_var";
  ballot.present = {{1, 0, 1}, {}, {0}};
  ballot.statistics = Bytes(17, std::byte{3});
  const Bytes bytes = ballot.encoded();
  const Ballot copy = Ballot::decoded(bytes);
  EXPECT_EQ(copy.encoded(), bytes);
  EXPECT_EQ(copy.common, ballot.common);
  EXPECT_EQ(copy.present, ballot.present);
  EXPECT_EQ(copy.refused, ballot.refused);
  EXPECT_EQ(copy.bad_micro_batch, 2);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_THROW(Ballot::decoded(std::span(bytes).first(size)), RankError);
}

TEST(Ballot, RanksInDifferentStatesAreNamedWithTheFirstDifference) {
  std::vector<Ballot> all = ballots();
  all[2].common.data = 9;
  test::expect_error<RankError>([&] { verdict_of(all); }, {"rank 2 and rank 0 disagree about the data in step 12"});
  all[1].common.loss_scale = 7;
  test::expect_error<RankError>([&] { verdict_of(all); }, {"rank 1 and rank 0 disagree about the loss scale"});
}

TEST(Ballot, AnExceptionOfOneRankIsThatOfAll) {
  std::vector<Ballot> all = ballots();
  all[1].error = "out of memory";
  test::expect_error<RankError>([&] { verdict_of(all); }, {"rank 1 ended step 12: out of memory"});
}

}  // namespace
}  // namespace binade::amp
