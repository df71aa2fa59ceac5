#include "binade/io/data/image_transforms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "binade/core/error.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }

/// An image (h, w, 3) of different values in 0 … 1.
Tensor picture(std::int64_t h, std::int64_t w) {
  Tensor t = Tensor::empty({h, w, 3});
  for (std::int64_t i = 0; i < t.numel(); ++i) t.mutable_data<float>()[i] = static_cast<float>((i * 37) % 101) / 101.0f;
  return t;
}
Tensor pixel(float r, float g, float b) { return Tensor::from({r, g, b}, {1, 1, 3}); }

// Expected values by hand: pixel centers at 1/2. To shrink an image, it is averaged with a triangle filter as wide as
// the new pixels.
TEST(ImageTransforms, ResizingByHand) {
  const Tensor row = Tensor::from({0.f, 4.f}, {1, 2, 1});
  EXPECT_THAT(values(resize_image(row, 1, 4)), ElementsAre(0, 1, 3, 4));
  const Tensor four = Tensor::from({0.f, 4.f, 8.f, 12.f}, {1, 4, 1});
  // The weights of pixel 0 are 3/4, 3/4 and 1/4 at distances 1/4, 1/4 and 3/4 of the source: (0 + 3 + 2) / (7 / 4).
  EXPECT_THAT(values(resize_image(four, 1, 2)), Pointwise(FloatNear(1e-6f), {20.f / 7, 64.f / 7}));
  EXPECT_EQ(resize_shorter_side(picture(10, 25), 4).shape(), (Shape{4, 10, 3}));
  EXPECT_EQ(resize_shorter_side(picture(25, 10), 4).shape(), (Shape{10, 4, 3}));
  EXPECT_THROW(resize_image(row, 0, 1), ArgumentError);
  EXPECT_THROW(resize_image(Tensor::zeros({2, 2}), 1, 1), ShapeError);
}

TEST(ImageTransforms, Crops) {
  const Tensor x = picture(5, 6);
  EXPECT_EQ(values(center_crop(x, 1, 2)), values(x[2].narrow(2, 2)));
  EXPECT_THROW(center_crop(x, 6, 2), ShapeError);
  std::set<std::vector<float>> seen;
  for (std::uint64_t step = 0; step < 200; ++step) {
    const Tensor window = random_crop(x, 5, 6, 1, {.seed = 1, .step = step});
    EXPECT_EQ(window.shape(), x.shape());
    seen.insert(values(window));
  }
  EXPECT_EQ(seen.size(), 9u) << "3 x 3 places";
  EXPECT_TRUE(seen.contains(values(x)));
  std::vector<float> down(18, 0.0f), rows = values(x);  // one pixel of padding above
  down.insert(down.end(), rows.begin(), rows.end() - 18);
  EXPECT_TRUE(seen.contains(down));
}

TEST(ImageTransforms, ResizedCropsStayInTheirRanges) {
  Tensor ramp = Tensor::empty({40, 50, 1});
  for (std::int64_t i = 0; i < 2000; ++i) ramp.mutable_data<float>()[i] = static_cast<float>(i % 50);
  double least = 50, most = 0;
  for (std::uint64_t step = 0; step < 300; ++step) {
    const Tensor y = random_resized_crop(ramp, 8, 8, {.seed = 3, .step = step}, {.min_area = 0.25, .max_area = 0.25});
    const double width = (y.at(7) - y.at(0)) / 7 * 8;  // the ramp shows the width of the window
    least = std::min(least, width), most = std::max(most, width);
  }
  // Width sqrt(500 r) for r in 3/4 … 4/3: 19.4 to 25.8, rounded; the triangle bends the ends of the ramp a little.
  EXPECT_NEAR(least, 19.4, 1.5);
  EXPECT_NEAR(most, 25.8, 1.5);
  EXPECT_EQ(random_resized_crop(picture(1, 90), 4, 4, {.seed = 1}).shape(), (Shape{4, 4, 3}));
  EXPECT_THROW(random_resized_crop(ramp, 8, 8, {}, {.min_area = 0.5, .max_area = 0.2}), ArgumentError);
}

// A flip is drawn with probability p: 2000 draws have a standard deviation of at most 22; 5 are allowed.
TEST(ImageTransforms, FlipsComeWithTheirProbability) {
  const Tensor x = picture(1, 2);
  int flipped = 0;
  for (std::uint64_t step = 0; step < 2000; ++step)
    flipped += values(random_flip_horizontal(x, {.seed = 2, .step = step}, 0.3)) != values(x);
  EXPECT_NEAR(flipped, 600, 110);
  const std::vector<float> v = values(x);
  EXPECT_THAT(values(random_flip_horizontal(x, {}, 1)), ElementsAre(v[3], v[4], v[5], v[0], v[1], v[2]));
  EXPECT_EQ(values(random_flip_vertical(x, {}, 1)), v);
}

TEST(ImageTransforms, ColorsByHand) {
  const auto near = [](const Tensor& got, std::vector<float> wanted) {
    EXPECT_THAT(values(got), Pointwise(FloatNear(1e-6f), wanted));
  };
  near(adjust_brightness(pixel(0.2f, 0.4f, 0.8f), 2), {0.4f, 0.8f, 1});
  near(adjust_saturation(pixel(1, 0, 0), 0), {0.299f, 0.299f, 0.299f});
  near(adjust_contrast(Tensor::from({0.f, 1.f}, {1, 2, 1}), 0.5), {0.25f, 0.75f});
  near(adjust_hue(pixel(1, 0, 0), 1.0 / 3), {0, 1, 0});   // red to green
  near(adjust_hue(pixel(1, 0, 0), -1.0 / 3), {0, 0, 1});  // red to blue
  near(adjust_hue(pixel(0.8f, 0.2f, 0.2f), 0.5), {0.2f, 0.8f, 0.8f});
  near(adjust_hue(pixel(0.1f, 0.5f, 0.3f), 0), {0.1f, 0.5f, 0.3f});
  near(adjust_hue(pixel(0.3f, 0.3f, 0.3f), 0.2), {0.3f, 0.3f, 0.3f});
  EXPECT_THROW(adjust_hue(pixel(0, 0, 0), 0.6), ArgumentError);
  for (const double factor : {-0.1, std::nan(""), HUGE_VAL}) {
    EXPECT_THROW(adjust_brightness(pixel(0, 0, 0), factor), ArgumentError);
    EXPECT_THROW(adjust_contrast(pixel(0, 0, 0), factor), ArgumentError);
    EXPECT_THROW(adjust_saturation(pixel(0, 0, 0), factor), ArgumentError);
  }
  near(image_normalize(pixel(0.485f, 0.456f, 0.631f)), {0, 0, 1});
  EXPECT_THROW(image_normalize(pixel(0, 0, 0), {0}, {1}), ArgumentError);
}

TEST(ImageTransforms, ErasesOneRectangle) {
  const Tensor x = Tensor::full({20, 30, 3}, 0.5);
  int erased = 0;
  for (std::uint64_t step = 0; step < 300; ++step) {
    const Tensor y = random_erasing(x, {.seed = 5, .step = step});
    std::int64_t count = 0, top = 20, bottom = -1, left = 30, right = -1;
    for (std::int64_t i = 0; i < 600; ++i)
      if (y.at(3 * i) == 0) {
        ++count;
        top = std::min(top, i / 30), bottom = std::max(bottom, i / 30);
        left = std::min(left, i % 30), right = std::max(right, i % 30);
      }
    if (count == 0) continue;
    ++erased;
    EXPECT_EQ(count, (bottom - top + 1) * (right - left + 1));
    EXPECT_TRUE(count >= 6 && count <= 240) << count;  // 2 % to 1/3 of 600, and rounding
  }
  EXPECT_NEAR(erased, 150, 45);
}

TEST(ImageTransforms, RandomChangesAreFunctionsOfTheStream) {
  const Tensor x = picture(9, 11);
  const RandomStream one{.seed = 1, .step = 5}, other{.seed = 1, .step = 6};
  for (const auto& f : std::vector<std::function<Tensor(const RandomStream&)>>{
           [&](const RandomStream& r) { return color_jitter(x, r); },
           [&](const RandomStream& r) { return random_resized_crop(x, 7, 7, r); },
           [&](const RandomStream& r) { return rand_augment(x, r, 3, 15); }}) {
    EXPECT_EQ(values(f(one)), values(f(one)));
    EXPECT_NE(values(f(one)), values(f(other)));
  }
  EXPECT_EQ(values(rand_augment(x, one, 0)), values(x));
  for (std::uint64_t step = 0; step < 60; ++step)
    for (const float v : values(rand_augment(x, {.seed = 4, .step = step}, 2, 30))) ASSERT_TRUE(v >= 0 && v <= 1);
}

LabeledImage::Batch three_images() {
  Tensor images = Tensor::empty({3, 8, 8, 1});
  for (std::int64_t i = 0; i < 192; ++i) images.mutable_data<float>()[i] = static_cast<float>(i / 64);
  return {images, Tensor::from(std::vector<std::int64_t>{2, 0, 2}, {3})};
}

TEST(ImageTransforms, MixupBlendsImagesAndLabelsAlike) {
  double sum = 0, squares = 0;
  constexpr int kDraws = 2000;
  for (std::uint64_t slot = 0; slot < kDraws; ++slot) {
    const MixedImages m = mixup(three_images(), 3, 0.4, 1, {.begin = slot});
    const double share = m.targets.at(3);  // the weight of class 0 in image 1
    EXPECT_NEAR(m.images.at(64), share * 1 + (1 - share) * 0, 1e-6);
    EXPECT_NEAR(m.targets.at(5), 1 - share, 1e-6);
    EXPECT_NEAR(m.targets.at(8), share, 1e-6);  // image 2 (class 2) and image 1 before it (class 0)
    EXPECT_NEAR(m.targets.at(2), 1, 1e-6);      // image 0 is mixed with image 2, of the same class
    sum += share, squares += (share - 0.5) * (share - 0.5);
  }
  // Beta(a, a): mean 1/2, variance 1 / (4 (2 a + 1)) = 0.139. The mean of 2000 has a deviation of 0.0083.
  EXPECT_NEAR(sum / kDraws, 0.5, 0.042);
  EXPECT_NEAR(squares / kDraws, 0.25 / 1.8, 0.015);
  auto bad = three_images();
  bad.labels = Tensor::from(std::vector<std::int64_t>{0, 3, 1}, {3});
  EXPECT_THAT(error_of<DataError>([&] { mixup(bad, 3, 0.4, 1, {}); }), HasSubstr("got 3 in row 1"));
  EXPECT_THROW(mixup(three_images(), 3, 0, 1, {}), ArgumentError);
}

TEST(ImageTransforms, CutmixMixesLabelsByArea) {
  for (std::uint64_t slot = 0; slot < 100; ++slot) {
    const MixedImages m = cutmix(three_images(), 3, 1, 1, {.begin = slot});
    std::int64_t other = 0;
    for (std::int64_t i = 64; i < 128; ++i) other += m.images.at(i) == 0;
    EXPECT_NEAR(m.targets.at(5), static_cast<double>(other) / 64, 1e-6);
    EXPECT_NEAR(m.targets.at(3), 1 - static_cast<double>(other) / 64, 1e-6);
  }
}

}  // namespace
}  // namespace binade::io
