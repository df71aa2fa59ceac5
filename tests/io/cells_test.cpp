#include "examples/unet/cells.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "binade/core/error.h"

namespace binade::examples {
namespace {

TEST(Cells, DependOnSeedAndIndexAlone) {
  const CellImage image = draw_cells(1, 2, 64);
  EXPECT_EQ(image.image.values, draw_cells(1, 2, 64).image.values);
  EXPECT_EQ(image.mask.values, draw_cells(1, 2, 64).mask.values);
  EXPECT_NE(image.image.values, draw_cells(1, 3, 64).image.values);
  EXPECT_NE(image.image.values, draw_cells(2, 2, 64).image.values);
}

TEST(Cells, AreBrighterThanTheBackgroundInEveryImage) {
  for (std::int64_t i = 0; i < 12; ++i) {
    const CellImage cells = draw_cells(7, i, 128);
    double sum[2] = {0, 0};
    double count[2] = {0, 0};
    for (std::size_t k = 0; k < cells.image.values.size(); ++k) {
      ASSERT_LE(cells.image.values[k], 255);
      const bool inside = cells.mask.values[k] == 255;
      ASSERT_TRUE(inside || cells.mask.values[k] == 0);
      sum[inside] += cells.image.values[k];
      ++count[inside];
    }
    const double share = count[1] / (count[0] + count[1]);
    EXPECT_TRUE(share > 0.03 && share < 0.6) << share << " of image " << i;
    EXPECT_GT(sum[1] / count[1], 1.5 * sum[0] / count[0]) << "image " << i;
  }
}

TEST(Cells, AreASetThatLoadsLikeAFolder) {
  const io::ImageSet set = embedded_cells({.count = 3, .size = 32});
  ASSERT_EQ(set.size(), 3);
  EXPECT_TRUE(std::is_sorted(set.samples.begin(), set.samples.end(), [](auto& a, auto& b) { return a.name < b.name; }));
  EXPECT_EQ(set.content(), embedded_cells({.count = 3, .size = 32}).content());
  EXPECT_NE(set.content(), embedded_cells({.count = 3, .size = 32, .seed = 1}).content());
  EXPECT_EQ(io::training_batches(set, {.batch = 2, .size = 16}).next().images.shape(), (Shape{2, 16, 16, 1}));
  EXPECT_THROW(draw_cells(0, 0, 8), ArgumentError);
  EXPECT_THROW(embedded_cells({.count = 0}), ArgumentError);
}

}  // namespace
}  // namespace binade::examples
