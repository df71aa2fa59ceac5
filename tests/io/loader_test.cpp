#include "binade/io/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "binade/core/error.h"
#include "tests/core/no_threads.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct IdBatch {
  std::vector<std::int64_t> ids;
  BatchOrigin origin;
};

Loader<IdBatch> ids(LoaderOptions options) {
  return {std::move(options), [](const BatchOrigin& origin) { return IdBatch{origin.samples, {}}; }};
}

std::vector<std::int64_t> take(Loader<IdBatch>& loader, int batches) {
  std::vector<std::int64_t> all;
  for (int i = 0; i < batches; ++i) {
    const IdBatch batch = loader.next();
    all.insert(all.end(), batch.ids.begin(), batch.ids.end());
    loader.commit(batch.origin);
  }
  return all;
}

TEST(Loader, EveryEpochHasEverySampleOnceInAnotherOrder) {
  auto loader = ids({.batch = 4, .seed = 11, .samples = 10});
  const std::vector<std::int64_t> shown = take(loader, 10);  // four epochs; some batches span two of them
  std::vector<std::vector<std::int64_t>> epochs;
  for (int e = 0; e < 4; ++e) {
    epochs.emplace_back(shown.begin() + e * 10, shown.begin() + (e + 1) * 10);
    std::vector<std::int64_t> sorted = epochs.back();
    std::sort(sorted.begin(), sorted.end());
    EXPECT_THAT(sorted, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    for (int other = 0; other < e; ++other) EXPECT_NE(epochs[other], epochs[e]);
  }
  EXPECT_EQ(loader.epoch(), 4);
}

// The error of std::thread once ended the run as an internal error.
TEST(Loader, WithoutAWorkerThreadBatchesAreMadeOnDemand) {
  auto loader = ids({.batch = 2, .order = SampleOrder::kSequential, .samples = 10});
  {
    const test::NoThreads none;
    EXPECT_THAT(take(loader, 2), ElementsAre(0, 1, 2, 3));
  }
  EXPECT_THAT(take(loader, 3), ElementsAre(4, 5, 6, 7, 8, 9));
}

TEST(Loader, ShufflesUniformly) {
  // 4800 epochs of 4 samples: each of the 24 orders is expected 200 times, with a standard deviation of 13.8; 83 is 6
  // sigma.
  auto loader = ids({.batch = 4, .seed = 5, .samples = 4});
  std::map<std::vector<std::int64_t>, int> count;
  for (int e = 0; e < 4800; ++e) ++count[take(loader, 1)];
  EXPECT_EQ(count.size(), 24u);
  for (const auto& [order, n] : count) EXPECT_NEAR(n, 200, 83);
}

TEST(Loader, PrefetchNeverChangesTheOrder) {
  for (const SampleOrder order : {SampleOrder::kShuffled, SampleOrder::kRandomOffset, SampleOrder::kSequential}) {
    auto reference = ids({.batch = 3, .seed = 2, .order = order, .samples = 17, .prefetch = 0});
    const auto expected = take(reference, 40);
    for (const int prefetch : {1, 2, 8}) {
      auto loader = ids({.batch = 3, .seed = 2, .order = order, .samples = 17, .prefetch = prefetch});
      EXPECT_EQ(take(loader, 40), expected);
    }
  }
}

TEST(Loader, SeedsGiveDifferentOrders) {
  auto a = ids({.batch = 32, .seed = 1, .samples = 32});
  auto b = ids({.batch = 32, .seed = 2, .samples = 32});
  EXPECT_NE(take(a, 1), take(b, 1));
}

TEST(Loader, SequentialBatchesEndWithTheEpoch) {
  auto loader = ids({.batch = 4, .order = SampleOrder::kSequential, .samples = 10});
  EXPECT_EQ(loader.batches_per_epoch(), 3);
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_THAT(loader.next().ids, ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(loader.next().ids, ElementsAre(4, 5, 6, 7));
    EXPECT_THAT(loader.next().ids, ElementsAre(8, 9));
  }
}

TEST(Loader, ResumesInsideAnEpochWithTheSameSamples) {
  for (const SampleOrder order : {SampleOrder::kShuffled, SampleOrder::kRandomOffset}) {
    const LoaderOptions options{.batch = 3, .seed = 9, .order = order, .samples = 20, .content = "abc"};
    auto whole = ids(options);
    const auto expected = take(whole, 30);
    for (const int cut : {0, 1, 6, 7, 13, 29}) {
      auto first = ids(options);
      auto shown = take(first, cut);
      (void)first.next();  // read, but not committed, so it comes again
      const StateDict state = first.state();
      auto second = ids(options);
      (void)second.next();
      second.load_state(state);
      const auto rest = take(second, 30 - cut);
      shown.insert(shown.end(), rest.begin(), rest.end());
      EXPECT_EQ(shown, expected) << "cut after " << cut;
    }
  }
}

TEST(Loader, ABatchThatIsNotCommittedComesAgainAfterARewind) {
  auto loader = ids({.batch = 2, .seed = 4, .samples = 9});
  const IdBatch first = loader.next();
  loader.commit(first.origin);
  const IdBatch second = loader.next();
  const IdBatch third = loader.next();
  loader.rewind();
  EXPECT_EQ(loader.next().ids, second.ids);
  EXPECT_EQ(loader.next().ids, third.ids);
  loader.commit(third.origin);  // skips the second
  loader.rewind();
  EXPECT_EQ(loader.consumed(), third.origin.end);
  loader.seek(0);
  EXPECT_EQ(loader.next().ids, first.ids);
}

TEST(Loader, AQuarantinedSampleIsNotReadAgainAlsoAfterAResume) {
  const LoaderOptions options{.batch = 3, .seed = 7, .samples = 8, .content = "abc"};
  auto loader = ids(options);
  take(loader, 2);
  loader.quarantine(5);
  loader.quarantine(2);
  auto resumed = ids(options);
  resumed.load_state(loader.state());
  const auto shown = take(loader, 20);
  EXPECT_EQ(std::count(shown.begin(), shown.end(), 5), 0);
  EXPECT_EQ(std::count(shown.begin(), shown.end(), 2), 0);
  EXPECT_GE(std::count(shown.begin(), shown.end(), 3), 9);  // 60 samples, 6 per epoch
  EXPECT_EQ(take(resumed, 20), shown);
  EXPECT_THAT(loader.state().integers("quarantine"), ElementsAre(2, 5));
}

TEST(Loader, QuarantiningAWindowExcludesEveryOverlappingWindow) {
  auto loader = ids({.batch = 4, .seed = 7, .order = SampleOrder::kRandomOffset, .samples = 50, .width = 9});
  loader.quarantine(20);
  int near = 0;
  for (const std::int64_t id : take(loader, 500)) {
    EXPECT_FALSE(id > 11 && id < 29) << id;
    near += id == 11 || id == 29;
  }
  EXPECT_GT(near, 0);
}

TEST(Loader, IfAllSamplesAreQuarantinedNextThrows) {
  for (const int prefetch : {0, 2}) {
    auto loader = ids({.batch = 1, .samples = 2, .prefetch = prefetch});
    loader.quarantine(0);
    loader.quarantine(1);
    EXPECT_THAT(error_of<DataError>([&] { loader.next(); }), HasSubstr("quarantined"));
  }
}

TEST(Loader, AnErrorIsThrownForItsBatchWhichCanBeTriedAgain) {
  for (const int prefetch : {0, 3}) {
    std::atomic<bool> broken = true;
    Loader<IdBatch> loader({.batch = 2, .order = SampleOrder::kSequential, .samples = 8, .prefetch = prefetch},
                           [&](const BatchOrigin& origin) {
                             if (origin.begin == 2 && broken) throw DataError("sample 3 cannot be read");
                             return IdBatch{origin.samples, {}};
                           });
    EXPECT_THAT(loader.next().ids, ElementsAre(0, 1));
    EXPECT_THAT(error_of<DataError>([&] { loader.next(); }), HasSubstr("sample 3"));
    EXPECT_THAT(error_of<DataError>([&] { loader.next(); }), HasSubstr("sample 3"));
    broken = false;
    if (prefetch > 0) loader.quarantine(7);  // discards the batches that the worker has prefetched
    EXPECT_THAT(loader.next().ids, ElementsAre(2, 3));
    EXPECT_THAT(loader.next().ids, ElementsAre(4, 5));
  }
}

TEST(Loader, IsDestroyedAndMovedWhileItsWorkerRuns) {
  for (int i = 0; i < 50; ++i) {
    auto loader = ids({.batch = 2, .samples = 100, .prefetch = 4});
    const auto first = loader.next().ids;
    Loader<IdBatch> moved = std::move(loader);
    EXPECT_NE(moved.next().ids, first);
  }
}

TEST(Loader, StateOfOtherDataOrSettingsIsRefused) {
  const LoaderOptions options{.batch = 2, .seed = 1, .samples = 8, .content = "abc"};
  const StateDict state = ids(options).state();
  const auto with = [&](auto change) {
    LoaderOptions other = options;
    change(other);
    return ids(other);
  };
  EXPECT_THAT(error_of<DataError>([&] { with([](auto& o) { o.content = "abd"; }).load_state(state); }),
              HasSubstr("other data"));
  EXPECT_THROW(with([](auto& o) { o.samples = 9; }).load_state(state), DataError);
  EXPECT_THROW(with([](auto& o) { o.seed = 2; }).load_state(state), CheckpointError);
  EXPECT_THROW(with([](auto& o) { o.order = SampleOrder::kSequential; }).load_state(state), CheckpointError);
  StateDict outside;
  for (const auto& [name, value] : state.values())
    outside.put(name, name == "position" ? StateDict::Value(std::int64_t{8}) : value);
  EXPECT_THROW(ids(options).load_state(outside), CheckpointError);
}

TEST(Loader, AnotherBatchSizeContinuesAtTheSameSample) {
  const LoaderOptions options{.batch = 2, .seed = 1, .samples = 20, .content = "abc"};
  auto before = ids(options);
  for (int k = 0; k < 3; ++k) before.commit(before.next().origin);
  LoaderOptions larger = options;
  larger.batch = 5;
  auto after = ids(larger);
  after.load_state(before.state());
  std::vector<std::int64_t> wanted;
  while (wanted.size() < 5) std::ranges::copy(before.next().ids, std::back_inserter(wanted));
  wanted.resize(5);
  EXPECT_EQ(after.next().ids, wanted);
}

TEST(Loader, SlotsNumberTheRowsOfTheRun) {
  const LoaderOptions options{.batch = 3, .seed = 9, .samples = 7};
  auto a = ids(options);
  (void)a.next();
  const IdBatch second = a.next();
  EXPECT_THAT(second.origin.slots, ElementsAre(3, 4, 5));
  const BatchOrigin row = second.origin.rows(1, 1);
  EXPECT_THAT(row.slots, ElementsAre(4));
  EXPECT_EQ(row.samples.at(0), second.ids[1]);
}

TEST(Loader, SettingsOutOfRangeAreRefused) {
  EXPECT_THROW(ids({.batch = 0, .samples = 3}), ArgumentError);
  EXPECT_THROW(ids({.batch = 1, .samples = 0}), DataError);
  EXPECT_THROW(ids({.batch = 1, .samples = 1, .prefetch = -1}), ArgumentError);
}

}  // namespace
}  // namespace binade::io
