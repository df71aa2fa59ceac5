#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "binade/core/error.h"
#include "binade/io/data/make_loader.h"
#include "binade/io/data/stream.h"
#include "tests/core/no_threads.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Sample i contains i and a random number of its slot, so that a batch shows its samples and slots. Some samples are
/// slow.
struct Noisy {
  std::int64_t count = 23;
  std::int64_t size() const { return count; }
  Tensor get(std::int64_t i, const SampleContext& context) const {
    if (i % 5 == 2) std::this_thread::sleep_for(std::chrono::microseconds(300));
    return Tensor::from({static_cast<double>(i), static_cast<double>(context.random().uniform(0))});
  }
};

using Numbers = std::vector<double>;
using NoisyLoader = decltype(make_loader(Noisy{}, {}));

Numbers numbers_of(const DataBatch<Tensor>& batch) { return batch.data.to_vector<double>(); }

/// The orders that are tested: those of SampleOrder, of samplers, and of a batch sampler.
std::vector<LoaderOptions> orders() {
  const auto shuffled = std::make_shared<ShuffledSampler>(23, 6);
  const auto weighted = std::make_shared<WeightedSampler>(WeightedSamplerOptions{.weights = Numbers(23, 1), .seed = 2});
  BucketOptions buckets{.tokens = 20, .pool = 10, .seed = 3};
  for (std::int64_t i = 0; i < 23; ++i) buckets.lengths.push_back(1 + i % 7);
  std::vector<LoaderOptions> all(6);
  all[1].order = SampleOrder::kSequential;
  all[2].last = LastBatch::kDropped;
  all[3].sampler = weighted;
  all[4].sampler = std::make_shared<ShareSampler>(shuffled, 1, 2);
  all[5].batch_sampler = std::make_shared<BucketBatchSampler>(buckets);
  for (LoaderOptions& options : all) {
    options.batch = 4;
    options.seed = 6;
  }
  return all;
}

TEST(LoaderWorkers, NeverChangeABit) {
  for (LoaderOptions options : orders()) {
    options.prefetch = 0;
    NoisyLoader reference = make_loader(Noisy{}, options);
    std::vector<Numbers> wanted;
    for (int i = 0; i < 15; ++i) wanted.push_back(numbers_of(reference.next()));
    options.prefetch = 3;
    for (const int workers : {1, 2, 5}) {
      options.workers = workers;
      NoisyLoader loader = make_loader(Noisy{}, options);
      for (const Numbers& batch : wanted) ASSERT_EQ(numbers_of(loader.next()), batch) << workers << " workers";
    }
  }
}

// Resumes at every place of two epochs, with 1 and 3 workers: the resumed loader returns the rest of the uninterrupted
// sequence. With several ranks, each makes only its share, and together they have the same batches.
TEST(LoaderWorkers, ResumeAtEveryBatchOverRanksGivesTheSameBits) {
  for (LoaderOptions options : orders()) {
    options.prefetch = 0;
    NoisyLoader whole = make_loader(Noisy{}, options);
    std::vector<Numbers> wanted;
    while (whole.epoch() < 2) {
      const auto batch = whole.next();
      wanted.push_back(numbers_of(batch));
      whole.commit(batch.origin);
    }
    wanted.resize(wanted.size() / 2 * 2);
    options.prefetch = 2;
    for (const int workers : {1, 3}) {
      options.workers = workers;
      for (const int ranks : {1, 2}) {
        for (std::size_t cut = 0; cut + 2 <= wanted.size(); cut += 2) {
          for (int rank = 0; rank < ranks; ++rank) {
            const auto play = [&](NoisyLoader& loader, std::size_t from, std::size_t to) {
              if (ranks > 1) loader.share({.period = ranks, .first = rank, .end = rank + 1});
              for (std::size_t i = from; i < to; ++i) {
                if (static_cast<int>(i) % ranks != rank) {
                  loader.commit(loader.skip());
                  continue;
                }
                const auto batch = loader.next();
                ASSERT_EQ(numbers_of(batch), wanted[i])
                    << options.workers << " workers, batch " << i << ", cut " << cut;
                loader.commit(batch.origin);
              }
            };
            NoisyLoader before = make_loader(Noisy{}, options);
            if (cut % 4 == 0)
              play(before, 0, cut);  // for half of the cuts; the others use seek(), to save time
            else
              before.seek([&] {
                BatchOrder order = BatchOrder(before.options());
                std::uint64_t slot = 0;
                for (std::size_t i = 0; i < cut; ++i) slot = order.batch_at(slot).end;
                return slot;
              }());
            NoisyLoader after = make_loader(Noisy{}, options);
            after.load_state(before.state());
            play(after, cut, std::min(wanted.size(), cut + 6));
          }
        }
      }
    }
  }
}

TEST(LoaderWorkers, WorkAtOnce) {
  // Three workers meet in three batches: with fewer threads, this would wait forever.
  std::atomic<int> here = 0;
  Loader<DataBatch<int>> loader({.batch = 1, .samples = 3, .prefetch = 1, .workers = 3}, [&](const BatchOrigin&) {
    for (++here; here < 3;) std::this_thread::yield();
    return DataBatch<int>{};
  });
  loader.next();
}

TEST(LoaderWorkers, AFailureComesInItsPlaceAndTheBatchIsMadeAgain) {
  std::atomic<int> failures = 0;
  const auto flaky = transform(Noisy{12}, [&](Tensor x) {
    if (x.at(0) == 5 && failures++ == 0) throw DataError("busy");
    return x;
  });
  auto loader = make_loader(flaky, {.batch = 2, .order = SampleOrder::kSequential, .prefetch = 4, .workers = 3});
  EXPECT_EQ(loader.next().data.at(0), 0);
  EXPECT_EQ(loader.next().data.at(0), 2);
  EXPECT_THAT(error_of<DataError>([&] { loader.next(); }), HasSubstr("sample 5 (slot 5, epoch 0): busy"));
  EXPECT_EQ(loader.next().data.at(0), 4);
  EXPECT_EQ(loader.next().data.at(0), 6);
}

TEST(LoaderWorkers, QuarantineAndRewindWhileTheyWork) {
  LoaderOptions options{.batch = 3, .seed = 8, .prefetch = 0};
  NoisyLoader reference = make_loader(Noisy{}, options);
  options.prefetch = 4;
  options.workers = 3;
  NoisyLoader loader = make_loader(Noisy{}, options);
  for (int i = 0; i < 40; ++i) {
    const auto batch = loader.next();
    ASSERT_EQ(numbers_of(batch), numbers_of(reference.next())) << i;
    if (i % 3 == 0) {
      loader.commit(batch.origin);
      reference.commit(batch.origin);
    }
    if (i % 5 == 4) loader.rewind(), reference.rewind();
    if (i % 9 == 8) loader.quarantine(i % 23), reference.quarantine(i % 23);
  }
}

// get() waits until the loader says that the sample is obsolete. Otherwise the destructor would wait forever.
TEST(LoaderWorkers, ASlowSampleHearsThatItIsObsolete) {
  struct Slow {
    std::int64_t size() const { return 100; }
    std::int64_t get(std::int64_t i, const SampleContext& context) const {
      while (i > 0 && !context.obsolete.stop_requested()) std::this_thread::yield();
      return i;
    }
  };
  auto loader = make_loader(Slow{}, {.batch = 1, .order = SampleOrder::kSequential, .prefetch = 8, .workers = 2});
  loader.next();
  loader.rewind();
  EXPECT_EQ(loader.next().data.at(0), 0);
}

TEST(LoaderWorkers, WithoutThreadsTheCallerMakesTheBatches) {
  auto loader = make_loader(Noisy{}, {.batch = 2, .order = SampleOrder::kSequential, .workers = 4});
  const test::NoThreads none;
  EXPECT_EQ(loader.next().data.at(0), 0);
  EXPECT_EQ(loader.next().data.at(0), 2);
}

TEST(LoaderWorkers, SettingsAreChecked) {
  EXPECT_THROW(make_loader(Noisy{}, {.workers = 0}), ArgumentError);
  EXPECT_THROW(make_loader(Noisy{0}, {}), DataError);
  LoaderOptions options = orders()[3];
  const StateDict state = make_loader(Noisy{}, options).state();
  options.sampler = std::make_shared<ShuffledSampler>(23, 6);
  EXPECT_THAT(error_of<CheckpointError>([&] { make_loader(Noisy{}, options).load_state(state); }),
              HasSubstr("the checkpoint's order is weighted with replacement (23 of 23"));
}

// ---- streams
// ---------------------------------------------------------------------------------------------------------

/// 0, 1, … 9 in every pass, shifted by 100 per pass. Notes what it reads.
struct Counter {
  static constexpr std::int64_t kLength = 10;
  std::int64_t at = 0, pass = 0;
  std::shared_ptr<std::atomic<int>> reads = std::make_shared<std::atomic<int>>(0);
  std::optional<std::int64_t> next() {
    if (at == kLength) return std::nullopt;
    ++*reads;
    return 100 * pass + at++;
  }
  void restart(std::int64_t number) { at = 0, pass = number; }
};
struct CounterWithState : Counter {
  StateDict state() const {
    StateDict state;
    state.put("at", at);
    state.put("pass", pass);
    return state;
  }
  void load_state(const StateDict& state) { at = state.integer("at"), pass = state.integer("pass"); }
};
struct CounterThatSkips : Counter {
  std::int64_t skip(std::int64_t count) {
    const std::int64_t n = std::min(count, kLength - at);
    at += n;
    return n;
  }
};

template <class Stream>
void resumes(bool reads_only_its_share) {
  const auto take = [](auto& loader) {
    const auto batch = loader.next();
    loader.commit(batch.origin);
    return batch.data.template to_vector<std::int64_t>();
  };
  for (const int workers : {1, 3}) {
    const LoaderOptions options{.batch = 4, .prefetch = 3, .workers = workers};
    auto whole = make_stream_loader(Stream{}, options);
    std::vector<std::vector<std::int64_t>> wanted;
    for (int i = 0; i < 12; ++i) wanted.push_back(take(whole));
    EXPECT_THAT(wanted[2], ElementsAre(8, 9, 100, 101));
    EXPECT_EQ(whole.pass(), 4);  // 48 samples
    for (int cut = 0; cut < 10; ++cut) {
      auto before = make_stream_loader(Stream{}, options);
      for (int i = 0; i < cut; ++i) take(before);
      (void)before.next();  // read, but not committed
      const StateDict state = before.state();
      auto after = make_stream_loader(Stream{}, options);
      (void)after.next();
      after.load_state(state);
      EXPECT_EQ(take(after), wanted[static_cast<std::size_t>(cut)]);
      before.rewind();
      EXPECT_EQ(take(before), wanted[static_cast<std::size_t>(cut)]);
      EXPECT_EQ(take(before), wanted[static_cast<std::size_t>(cut) + 1]);
    }
    Stream counted;
    auto part = make_stream_loader(counted, options);
    part.share({.period = 2, .first = 1, .end = 2});
    for (std::size_t i = 0; i < 6; i += 2) {
      part.skip();
      EXPECT_EQ(take(part), wanted[i + 1]);
    }
    if (reads_only_its_share) {
      EXPECT_LE(*counted.reads, 4 * (3 + 3 + workers));
    }
  }
}

TEST(StreamLoader, ResumesByState) { resumes<CounterWithState>(false); }
TEST(StreamLoader, ResumesByReadingAgain) { resumes<Counter>(false); }
TEST(StreamLoader, ResumesBySkipping) { resumes<CounterThatSkips>(true); }

TEST(StreamLoader, AnEmptyStreamIsAnError) {
  struct Empty {
    std::optional<int> next() { return std::nullopt; }
    void restart(std::int64_t) {}
  };
  auto loader = make_stream_loader(Empty{}, {.batch = 2});
  EXPECT_THAT(error_of<DataError>([&] { loader.next(); }), HasSubstr("no sample"));
}

TEST(StreamLoader, AnErrorNamesThePlace) {
  struct Torn : Counter {
    std::optional<std::int64_t> next() {
      if (at == 5) throw DataError("part-2.tar: torn");
      return Counter::next();
    }
  };
  auto loader = make_stream_loader(Torn{}, {.batch = 4});
  loader.next();
  EXPECT_EQ(error_of<DataError>([&] { loader.next(); }), "Torn, slot 5: part-2.tar: torn");
}

// When the stream throws at sample 4, it is already behind it. The loader must go back to it; otherwise the sample
// would be left out.
TEST(StreamLoader, AfterAnErrorTheSameBatchIsReadAgain) {
  struct Torn : Counter {
    std::shared_ptr<int> failures = std::make_shared<int>(2);
    std::optional<std::int64_t> next() {
      if (at == 4 && (*failures)-- > 0) {
        ++at;
        throw DataError("torn");
      }
      return Counter::next();
    }
  };
  for (const int prefetch : {0, 2}) {
    auto loader = make_stream_loader(Torn{}, {.batch = 4, .prefetch = prefetch});
    loader.next();
    for (int i = 0; i < 2; ++i) EXPECT_EQ(error_of<DataError>([&] { loader.next(); }), "Torn, slot 4: torn");
    EXPECT_THAT(loader.next().data.to_vector<std::int64_t>(), ElementsAre(4, 5, 6, 7)) << "prefetch " << prefetch;
  }
}

TEST(StreamLoader, OnePassForEvaluation) {
  std::vector<std::vector<std::int64_t>> all;
  Counter counter;
  for_each_batch(counter, 4,
                 [&](const DataBatch<Tensor>& batch) { all.push_back(batch.data.to_vector<std::int64_t>()); });
  EXPECT_THAT(all, ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7), ElementsAre(8, 9)));
}

}  // namespace
}  // namespace binade::io
