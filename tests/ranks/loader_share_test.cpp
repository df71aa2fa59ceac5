#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "binade/core/error.h"
#include "binade/core/runtime.h"
#include "binade/io/data/loader.h"

namespace binade::io {
namespace {

struct Batch {
  BatchOrigin origin{};
};

/// A loader with batches of 3 samples. It records the first slot of each batch that it makes.
struct Noting {
  explicit Noting(int prefetch)
      : loader({.batch = 3, .seed = 4, .samples = 20, .prefetch = prefetch}, [this](const BatchOrigin& origin) {
          made.insert(origin.begin);
          return Batch{origin};
        }) {}
  struct Set {
    void insert(std::uint64_t slot) {
      const std::lock_guard lock(mutex);
      slots.insert(slot);
    }
    std::mutex mutex;
    std::multiset<std::uint64_t> slots;
  } made;
  Loader<Batch> loader;
};

TEST(LoaderShare, SkipAndNextVisitTheBatchesOfNext) {
  const Runtime runtime;
  for (const int prefetch : {0, 1, 3}) {
    Noting whole(0), part(prefetch);
    part.loader.share({.period = 4, .first = 1, .end = 3});
    for (int step = 0; step < 6; ++step)
      for (int i = 0; i < 4; ++i) {
        const BatchOrigin wanted = whole.loader.next().origin;
        const BatchOrigin got = i == 1 || i == 2 ? part.loader.next().origin : part.loader.skip();
        ASSERT_EQ(got.samples, wanted.samples);
        ASSERT_EQ(got.begin, wanted.begin);
        ASSERT_EQ(got.end, wanted.end);
      }
    const std::lock_guard lock(part.made.mutex);
    for (const std::uint64_t slot : part.made.slots) {
      const std::uint64_t number = slot / 3 % 4;
      EXPECT_TRUE(number == 1 || number == 2) << "the batch at slot " << slot << " belongs to another rank";
    }
    EXPECT_GE(part.made.slots.size(), 12u);
  }
}

TEST(LoaderShare, ABatchOutsideOfTheShareIsMadeIfItIsAskedFor) {
  const Runtime runtime;
  for (const int prefetch : {0, 2}) {
    Noting whole(0), part(prefetch);
    part.loader.share({.period = 2, .first = 0, .end = 1});
    for (int i = 0; i < 9; ++i) ASSERT_EQ(part.loader.next().origin.samples, whole.loader.next().origin.samples);
  }
}

TEST(LoaderShare, RewindAndCommitStartThePeriodAgain) {
  const Runtime runtime;
  for (const int prefetch : {0, 2}) {
    Noting part(prefetch);
    part.loader.share({.period = 2, .first = 1, .end = 2});
    const BatchOrigin first = part.loader.skip();
    part.loader.rewind();
    EXPECT_EQ(part.loader.skip().samples, first.samples);
    const Batch second = part.loader.next();
    part.loader.commit(second.origin);
    EXPECT_EQ(part.loader.consumed(), 6u);
    part.loader.skip();
    part.loader.rewind();
    EXPECT_EQ(part.loader.skip().begin, 6u);
    EXPECT_EQ(part.loader.next().origin.begin, 9u);
  }
}

TEST(LoaderShare, RefusesAPartOutsideOfThePeriod) {
  const Runtime runtime;
  Noting one(0);
  EXPECT_THROW(one.loader.share({.period = 2, .first = 0, .end = 3}), ArgumentError);
  EXPECT_THROW(one.loader.share({.period = 2, .first = 1, .end = 1}), ArgumentError);
  EXPECT_THROW(one.loader.share({.period = 0, .first = 0, .end = 0}), ArgumentError);
}

}  // namespace
}  // namespace binade::io
