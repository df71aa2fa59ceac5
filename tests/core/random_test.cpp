#include "binade/core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace binade {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Known answers published with the Random123 library (kat_vectors, philox4x32 10 rounds).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kAll = 0xffffffff;
  EXPECT_EQ(philox4x32({kAll, kAll, kAll, kAll}, {kAll, kAll}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, EveryFieldOfTheKeyGivesOtherNumbers) {
  const RandomStream base{7, RngPurpose::kDropout, 5, 1, 9};
  std::set<Words> seen{base.block(0), base.block(1)};
  for (RandomStream other :
       {RandomStream{8, RngPurpose::kDropout, 5, 1, 9}, RandomStream{7, RngPurpose::kInit, 5, 1, 9},
        RandomStream{7, RngPurpose::kDropout, 6, 1, 9}, RandomStream{7, RngPurpose::kDropout, 5, 2, 9},
        RandomStream{7, RngPurpose::kDropout, 5, 1, 10}, RandomStream{7, RngPurpose::kDropout, 5 + (1ull << 32), 1, 9}})
    EXPECT_TRUE(seen.insert(other.block(0)).second);
}

TEST(RandomStream, UniformAndNormalHaveTheirMoments) {
  const RandomStream stream{3, RngPurpose::kInit, 0, 0, 0};
  constexpr int kCount = 200'000;
  double sum = 0, square = 0, normal = 0, normal_square = 0;
  for (int i = 0; i < kCount; ++i) {
    const double u = stream.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    square += u * u;
    const double z = stream.normal(static_cast<std::uint64_t>(i));
    normal += z;
    normal_square += z * z;
  }
  // Tolerance: five standard errors of each mean.
  const double root = std::sqrt(double{kCount});
  EXPECT_NEAR(sum / kCount, 0.5, 5 * std::sqrt(1.0 / 12) / root);
  EXPECT_NEAR(square / kCount, 1.0 / 3, 5 * std::sqrt(4.0 / 45) / root);
  EXPECT_NEAR(normal / kCount, 0.0, 5 / root);
  EXPECT_NEAR(normal_square / kCount, 1.0, 5 * std::sqrt(2.0) / root);
}

TEST(RandomStream, BelowIsInRange) {
  const RandomStream stream{1, RngPurpose::kShuffle, 0, 0, 0};
  for (std::uint64_t n : {1ull, 2ull, 3ull, 1000ull, 4294967295ull})
    for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_LT(stream.below(i, n), n);
}

}  // namespace
}  // namespace binade
