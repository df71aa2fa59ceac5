#include "binade/io/data/augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>

#include "binade/core/error.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;

/// An image with the values 0 … H * W - 1, which is also its mask.
ImagePair counting(std::int64_t height, std::int64_t width) {
  std::vector<float> image;
  std::vector<std::uint8_t> mask;
  for (std::int64_t i = 0; i < height * width; ++i) {
    image.push_back(static_cast<float>(i));
    mask.push_back(static_cast<std::uint8_t>(i));
  }
  return {Tensor::from(image, {height, width, 1}), Tensor::from(mask, {height, width})};
}

std::vector<double> mask_of(const ImagePair& pair) { return pair.mask.to_vector<double>(); }

void expect_alike(const ImagePair& pair) { EXPECT_EQ(pair.image.to_vector<float>(), pair.mask.to_vector<float>()); }

TEST(Augment, FlipsChangeImageAndMaskAlike) {
  EXPECT_THAT(mask_of(flip_horizontal(counting(2, 3))), ElementsAre(2, 1, 0, 5, 4, 3));
  EXPECT_THAT(mask_of(flip_vertical(counting(2, 3))), ElementsAre(3, 4, 5, 0, 1, 2));
  expect_alike(flip_horizontal(counting(2, 3)));
  expect_alike(flip_vertical(counting(2, 3)));
}

TEST(Augment, QuarterTurnsAreCounterClockwise) {
  const ImagePair turned = rotate90(counting(2, 3), 1);
  EXPECT_EQ(turned.image.shape(), (Shape{3, 2, 1}));
  EXPECT_THAT(mask_of(turned), ElementsAre(2, 5, 1, 4, 0, 3));
  expect_alike(turned);
  EXPECT_THAT(mask_of(rotate90(counting(2, 3), -1)), ElementsAre(3, 0, 4, 1, 5, 2));
  EXPECT_EQ(mask_of(rotate90(counting(2, 3), 2)), mask_of(rotate90(turned, 1)));
  EXPECT_EQ(mask_of(rotate90(turned, 3)), mask_of(counting(2, 3)));
}

TEST(Augment, ACropOverTheBorderShowsTheMirrorImage) {
  const ImagePair window = crop(counting(3, 3), -1, 1, 3, 4);
  EXPECT_THAT(mask_of(window), ElementsAre(4, 5, 4, 3, 1, 2, 1, 0, 4, 5, 4, 3));
  expect_alike(window);
  EXPECT_THAT(mask_of(crop(counting(1, 1), 0, 0, 2, 2)), ElementsAre(0, 0, 0, 0));
}

TEST(Augment, EveryChannelIsMoved) {
  const Tensor color = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {1, 2, 3});
  EXPECT_THAT(flip_horizontal({color, {}}).image.to_vector<float>(), ElementsAre(4, 5, 6, 1, 2, 3));
}

TEST(Augment, ARotationBy90DegreesEqualsTheQuarterTurn) {
  const ImagePair pair = counting(5, 5);
  CoordinateMap map = CoordinateMap::window(0, 0, 5, 5);
  map.rotate(std::numbers::pi / 2);
  const ImagePair turned = sample(pair, map);
  const ImagePair exact = rotate90(pair, 1);
  EXPECT_EQ(mask_of(turned), mask_of(exact));
  for (std::int64_t i = 0; i < 25; ++i)
    EXPECT_NEAR(turned.image.at(i), exact.image.at(i), 1e-4);  // not exact: cos(pi / 2) is 6e-17 in double
}

TEST(Augment, BilinearSamplingIsExactOnALinearImage) {
  // Bilinear interpolation is exact for f(y, x) = 10 y + x; the mask takes the nearest pixel.
  std::vector<float> values;
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 8; ++x) values.push_back(static_cast<float>(10 * y + x));
  const ImagePair pair{Tensor::from(values, {8, 8, 1}), counting(8, 8).mask};
  CoordinateMap map = CoordinateMap::window(2.25, 3.75, 3, 2);
  const ImagePair seen = sample(pair, map);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j) {
      EXPECT_NEAR(seen.image.at(i * 2 + j), 10 * (2.25 + i) + 3.75 + j, 1e-5);
      EXPECT_EQ(seen.mask.at(i * 2 + j), (2 + i) * 8 + 4 + j);
    }
}

TEST(Augment, ElasticFieldIsTheSmoothedUniformField) {
  // The reference evaluates the definition per pixel, as a two-dimensional sum in double.
  const RandomStream stream{.seed = 5, .purpose = RngPurpose::kAugment, .step = 77, .index = 2};
  const int height = 19;
  const int width = 23;
  const double sigma = 1.7;
  const double alpha = 12;
  const std::vector<float> field = elastic_field(stream, height, width, alpha, sigma);
  const int radius = static_cast<int>(4 * sigma + 0.5);
  double total = 0;
  for (int dy = -radius; dy <= radius; ++dy)
    for (int dx = -radius; dx <= radius; ++dx) total += std::exp(-(dy * dy + dx * dx) / (2 * sigma * sigma));
  double largest = 0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      double sum = 0;
      for (int dy = -radius; dy <= radius; ++dy)
        for (int dx = -radius; dx <= radius; ++dx) {
          if (y + dy < 0 || y + dy >= height || x + dx < 0 || x + dx >= width) continue;
          const double drawn = 2.0 * stream.uniform(static_cast<std::uint64_t>((y + dy) * width + x + dx)) - 1;
          sum += std::exp(-(dy * dy + dx * dx) / (2 * sigma * sigma)) * drawn;
        }
      // Two roundings of values below 1 to float, and one of the product.
      EXPECT_NEAR(field[static_cast<std::size_t>(y * width + x)], alpha * sum / total, alpha * 3 * 0x1p-24);
      largest = std::max(largest, std::abs(alpha * sum / total));
    }
  }
  EXPECT_GT(largest, 1);  // so the comparison above is not of zeros
}

TEST(Augment, ElasticDisplacementMovesPixelsByTheField) {
  CoordinateMap map = CoordinateMap::window(1, 2, 2, 2);
  map.displace({0.5f, 0, -1, 0}, {0, 0.25f, 0, 2});
  EXPECT_THAT(map.y, ElementsAre(1.5f, 1.0f, 1.0f, 2.0f));
  EXPECT_THAT(map.x, ElementsAre(2.0f, 3.25f, 2.0f, 5.0f));
  EXPECT_THROW(map.displace({1}, {1}), ArgumentError);
}

TEST(Augment, DependsOnTheRandomStreamAlone) {
  const ImagePair pair = counting(13, 19);
  const AugmentOptions all{.rotate_degrees = 30, .elastic_alpha = 40, .elastic_sigma = 3};
  RandomStream stream{.seed = 1, .purpose = RngPurpose::kAugment, .step = 9};
  const ImagePair first = augment(pair, 16, all, stream);
  EXPECT_EQ(first.image.shape(), (Shape{16, 16, 1}));
  const ImagePair again = augment(pair, 16, all, stream);
  EXPECT_EQ(first.image.to_vector<float>(), again.image.to_vector<float>());
  EXPECT_EQ(mask_of(first), mask_of(again));
  stream.step = 10;
  EXPECT_NE(augment(pair, 16, all, stream).image.to_vector<float>(), first.image.to_vector<float>());
}

TEST(Augment, EverySymmetryOfTheSquareAndEveryPositionOccurs) {
  const ImagePair pair = counting(3, 3);
  std::set<std::vector<double>> symmetries;
  std::set<double> places;
  for (std::uint64_t step = 0; step < 400; ++step) {
    const RandomStream stream{.seed = 4, .purpose = RngPurpose::kAugment, .step = step};
    const ImagePair whole = augment(pair, 0, {}, stream);
    expect_alike(whole);
    symmetries.insert(mask_of(whole));
    places.insert(augment(pair, 1, AugmentOptions::none(), stream).mask.at(0));
  }
  EXPECT_EQ(symmetries.size(), 8u);
  EXPECT_EQ(places.size(), 9u);
}

TEST(Augment, ACropLargerThanTheImageIsMirrored) {
  const RandomStream stream{.seed = 4, .purpose = RngPurpose::kAugment, .step = 1};
  const ImagePair seen = augment(counting(3, 5), 8, AugmentOptions::none(), stream);
  EXPECT_EQ(seen.mask.shape(), (Shape{8, 8}));
  expect_alike(seen);
}

TEST(Augment, PaddingReachesTheNextMultiple) {
  const Tensor padded = pad_to_multiple(counting(5, 8).image, 4);
  EXPECT_EQ(padded.shape(), (Shape{8, 8, 1}));
  EXPECT_EQ(padded.at(5 * 8), 3 * 8);  // row 5 mirrors row 3
  EXPECT_EQ(pad_to_multiple(counting(4, 8).image, 4).shape(), (Shape{4, 8, 1}));
}

TEST(Augment, InvalidShapesAndSizesAreRefused) {
  EXPECT_THROW(flip_horizontal({counting(2, 3).image, counting(3, 2).mask}), ShapeError);
  EXPECT_THROW(crop(counting(2, 3), 0, 0, 0, 1), ArgumentError);
  EXPECT_THROW(elastic_field({}, 4, 4, 1, 0), ArgumentError);
}

}  // namespace
}  // namespace binade::io
