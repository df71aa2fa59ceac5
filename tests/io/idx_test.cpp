#include "binade/io/data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/core/error.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;

const std::string kImages = "\0\0\x08\3\0\0\0\2\0\0\0\1\0\0\0\2"s + "\x00\xFF\x33\x66"s;
const std::string kLabels = "\0\0\x08\1\0\0\0\2\7\x09"s;
/// kLabels, compressed with gzip.
const std::string kZippedLabels =
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\x63\x60\xe0\x60\x64\x60\x60\x60\x62\xe7\x04\x00\x7a\x82\x01\xa3\x0a\x00\x00\x00"s;

TEST(Idx, EveryElementTypeIsRead) {
  const ScratchFolder folder;
  const auto values = [&](const std::string& bytes) { return read_idx(folder.write("a", bytes)).to_vector<double>(); };
  EXPECT_THAT(values(kImages), ElementsAre(0, 255, 51, 102));
  EXPECT_THAT(values("\0\0\x09\1\0\0\0\2\xFF\x02"s), ElementsAre(-1, 2));
  EXPECT_THAT(values("\0\0\x0B\1\0\0\0\1\xFF\xFE"s), ElementsAre(-2));
  EXPECT_THAT(values("\0\0\x0C\1\0\0\0\1\0\1\0\0"s), ElementsAre(65536));
  EXPECT_THAT(values("\0\0\x0D\1\0\0\0\1\xC0\x20\0\0"s), ElementsAre(-2.5));
  EXPECT_THAT(values("\0\0\x0E\1\0\0\0\1\x3F\xF8\0\0\0\0\0\0"s), ElementsAre(1.5));
  EXPECT_EQ(read_idx(folder.path("a")).dtype(), DType::f64);
}

TEST(Idx, GzippedFilesAreRead) {
  const ScratchFolder folder;
  EXPECT_THAT(read_idx(folder.write("a.gz", kZippedLabels)).to_vector<double>(), ElementsAre(7, 9));
  for (std::size_t length = 2; length < kZippedLabels.size(); ++length)
    EXPECT_THROW(read_idx(folder.write("a.gz", kZippedLabels.substr(0, length))), DataError) << length;
  std::string damaged = kZippedLabels;
  damaged[22] ^= 1;  // a bit of the checksum
  EXPECT_THAT(error_of<DataError>([&] { read_idx(folder.write("a.gz", damaged)); }), HasSubstr("gzip"));
}

TEST(Idx, BadFilesAreDataErrorsThatNameTheFile) {
  const ScratchFolder folder;
  const auto reason = [&](const std::string& bytes) {
    const std::string path = folder.write("labels", bytes);
    return error_of<DataError>([&] { read_idx(path); });
  };
  for (std::size_t length = 0; length < kImages.size(); ++length)
    EXPECT_THAT(reason(kImages.substr(0, length)), HasSubstr("labels"));
  EXPECT_THAT(reason(kImages + "x"), HasSubstr("declares 4 elements"));
  EXPECT_THAT(reason("\0\0\x07\1\0\0\0\0"s), HasSubstr("0x07"));
  EXPECT_THAT(reason("\0\0\x0E\3\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s), HasSubstr("beyond any file"));
  EXPECT_THAT(reason("\0\0\x08\x09"s + std::string(36, '\0')), HasSubstr("extents"));
}

TEST(LabeledImages, HaveTheirLabels) {
  const ScratchFolder folder;
  folder.write("train-images-idx3-ubyte", kImages);
  folder.write("train-labels-idx1-ubyte.gz", kZippedLabels);
  const LabeledImages set = read_labeled_images(folder.path(), "train");
  auto loader = labeled_batches(set, {.batch = 2, .seed = 1});
  for (int i = 0; i < 4; ++i) {
    const LabeledBatch batch = loader.next();
    EXPECT_EQ(batch.images.shape(), (Shape{2, 1, 2, 1}));
    for (std::int64_t row = 0; row < 2; ++row) {
      const bool first = batch.origin.samples[static_cast<std::size_t>(row)] == 0;
      EXPECT_EQ(batch.labels.at(row), first ? 7 : 9);
      EXPECT_EQ(static_cast<float>(batch.images.at(2 * row + 1)), first ? 1.0f : 0.4f);
    }
  }
  folder.write("train-labels-idx1-ubyte", "\0\0\x08\1\0\0\0\1\7"s);
  EXPECT_THAT(error_of<DataError>([&] { read_labeled_images(folder.path(), "train"); }),
              HasSubstr("one label for each of 2 images"));
  EXPECT_THROW(read_labeled_images(folder.path(), "t10k"), DataError);
}

}  // namespace
}  // namespace binade::io
