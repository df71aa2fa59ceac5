#include "binade/io/data/image_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>

#include "binade/core/error.h"
#include "tests/io/png_bytes.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;

std::string grey(std::int64_t width, std::int64_t height, std::vector<std::uint16_t> values, int depth = 8) {
  return encode_png({width, height, 1, depth, std::move(values)});
}

TEST(ImageFolder, ReadsPairsByNameInOrder) {
  const ScratchFolder folder;
  folder.write("images/b.png", grey(2, 1, {0, 255}));
  folder.write("images/a.png", grey(1, 1, {51}));
  folder.write("images/notes.txt", "no image");
  folder.write("masks/a.png", grey(1, 1, {128}));
  folder.write("masks/b.png", grey(2, 1, {127, 255}));
  const ImageSet set = read_images(folder.path(), {.normalize = false});
  ASSERT_EQ(set.size(), 2);
  EXPECT_EQ(set.samples[0].name, "a.png");
  EXPECT_EQ(set.channels, 1);
  EXPECT_FLOAT_EQ(static_cast<float>(set.samples[0].pair.image.item()), 0.2f);
  EXPECT_THAT(set.samples[1].pair.image.to_vector<float>(), ElementsAre(0, 1));
  EXPECT_THAT(set.samples[0].pair.mask.to_vector<double>(), ElementsAre(1));
  EXPECT_THAT(set.samples[1].pair.mask.to_vector<double>(), ElementsAre(0, 1));
}

TEST(ImageFolder, AnOnePixelImageWorks) {
  const ScratchFolder folder;
  folder.write("images/a.png", grey(1, 1, {9}));
  folder.write("masks/a.png", grey(1, 1, {255}));
  const ImageSet set = read_images(folder.path());
  EXPECT_EQ(set.samples[0].pair.image.item(), 0);  // constant: normalized to zero
  auto loader = training_batches(set, {.batch = 2, .size = 4});
  EXPECT_EQ(loader.next().images.shape(), (Shape{2, 4, 4, 1}));
}

TEST(ImageFolder, OneColorImageMakesAllThreeChannels) {
  const ScratchFolder folder;
  folder.write("images/a.png", grey(1, 1, {51}));
  folder.write("images/b.png", encode_png({1, 1, 4, 16, {65535, 0, 13107, 7}}));
  for (const char* name : {"masks/a.png", "masks/b.png"}) folder.write(name, grey(1, 1, {0}));
  const ImageSet set = read_images(folder.path(), {.normalize = false});
  EXPECT_EQ(set.channels, 3);
  EXPECT_THAT(set.samples[0].pair.image.to_vector<float>(), ElementsAre(0.2f, 0.2f, 0.2f));
  EXPECT_THAT(set.samples[1].pair.image.to_vector<float>(), ElementsAre(1, 0, 0.2f));
  const ImageSet grey_set = read_images(folder.path(), {.channels = 1, .normalize = false});
  EXPECT_THAT(grey_set.samples[1].pair.image.to_vector<float>(),
              ElementsAre(::testing::FloatNear(0.299f + 0.114f * 0.2f, 1e-6f)));
}

TEST(ImageFolder, NormalizedImagesHaveZeroMeanAndUnitDeviation) {
  const ScratchFolder folder;
  folder.write("images/a.png", grey(4, 1, {10, 20, 30, 60}));
  folder.write("masks/a.png", grey(4, 1, {0, 0, 0, 0}));
  const auto values = read_images(folder.path()).samples[0].pair.image.to_vector<double>();
  double mean = 0;
  double square = 0;
  for (const double value : values) {
    mean += value / 4;
    square += value * value / 4;
  }
  EXPECT_NEAR(mean, 0, 1e-7);
  EXPECT_NEAR(square, 1, 1e-6);
}

TEST(ImageFolder, BinaryMasksOfEveryFormatFollowOneRule) {
  const auto labels = [](const std::string& bytes) {
    const ScratchFolder folder;
    const std::string path = folder.write("mask.png", bytes);
    return to_mask(read_mask_png(path, 1), 1, path).to_vector<double>();
  };
  EXPECT_THAT(labels(grey(2, 1, {0, 1}, 1)), ElementsAre(0, 1));
  EXPECT_THAT(labels(grey(3, 1, {1, 127, 128})), ElementsAre(0, 0, 1));
  EXPECT_THAT(labels(grey(2, 1, {7, 8}, 4)), ElementsAre(0, 1));
  EXPECT_THAT(labels(grey(2, 1, {127 * 257, 128 * 257}, 16)), ElementsAre(0, 1));
  EXPECT_THAT(labels(encode_png({2, 1, 3, 8, {255, 255, 255, 0, 0, 0}})), ElementsAre(1, 0));
  EXPECT_THAT(labels(encode_png({2, 1, 4, 8, {255, 255, 255, 0, 0, 0, 0, 255}})),
              ElementsAre(1, 0));  // alpha is ignored
  EXPECT_THAT(labels(PngBytes{.width = 2, .color = 3, .rows = "\0\0\1"s, .palette = "\0\0\0\xFF\xFF\xFF"s}.file()),
              ElementsAre(0, 1));
  EXPECT_THAT(
      labels(PngBytes{.width = 2, .depth = 1, .color = 3, .rows = "\0\x40"s, .palette = "\xFF\xFF\xFF\0\0\0"s}.file()),
      ElementsAre(0, 1));
}

TEST(ImageFolder, ClassIdsArePixelValuesOrPaletteIndices) {
  const ScratchFolder folder;
  const auto labels = [&](const std::string& bytes) {
    const std::string path = folder.write("mask.png", bytes);
    return to_mask(read_mask_png(path, 3), 3, path).to_vector<double>();
  };
  EXPECT_THAT(labels(grey(3, 1, {0, 1, 2})), ElementsAre(0, 1, 2));
  EXPECT_THAT(labels(PngBytes{.width = 2, .color = 3, .rows = "\0\2\1"s, .palette = "\0\0\0\xFF\0\0\0\xFF\0"s}.file()),
              ElementsAre(2, 1));
  EXPECT_THAT(error_of<DataError>([&] {
                labels(grey(2, 1, {0, 3}));
              }),
              HasSubstr("wanted class ids 0 to 2, got 3 at row 0, column 1"));
  EXPECT_THAT(error_of<DataError>([&] { labels(encode_png({1, 1, 3, 8, {1, 2, 3}})); }), HasSubstr("mask.png"));
}

TEST(ImageFolder, BadFoldersAreDataErrorsThatNameTheFile) {
  const ScratchFolder folder;
  const auto reason = [&] { return error_of<DataError>([&] { read_images(folder.path()); }); };
  EXPECT_THAT(reason(), HasSubstr("images"));
  std::filesystem::create_directories(folder.path("images"));
  std::filesystem::create_directories(folder.path("masks"));
  EXPECT_THAT(reason(), HasSubstr("got none"));
  folder.write("images/a.png", grey(2, 1, {0, 1}));
  EXPECT_THAT(reason(), HasSubstr("images/a.png: the image has no mask"));
  folder.write("masks/a.png", grey(1, 2, {0, 1}));
  EXPECT_THAT(reason(), HasSubstr("masks/a.png: wanted a mask of its image's size 2 x 1, got 1 x 2"));
  folder.write("masks/a.png", grey(2, 1, {0, 1}));
  EXPECT_NO_THROW(read_images(folder.path()));
  folder.write("masks/b.png", grey(2, 1, {0, 1}));
  EXPECT_THAT(reason(), HasSubstr("masks/b.png: the mask has no image"));
  folder.write("images/b.png", grey(2, 1, {0, 1}).substr(0, 50));
  EXPECT_THAT(reason(), HasSubstr("images/b.png: the PNG is damaged: the file is truncated"));
  std::filesystem::remove(folder.path("images/b.png"));
  std::filesystem::remove(folder.path("masks/b.png"));
  folder.write("images/c.jpg", "x");
  EXPECT_THAT(reason(), HasSubstr("c.jpg"));
  EXPECT_THAT(error_of<DataError>([&] { read_images(folder.path("missing")); }), HasSubstr("missing"));
}

TEST(ImageSet, ContentHashDependsOnTheImagesAndNotOnTheirFolder) {
  const ScratchFolder folder;
  for (const char* place : {"one", "two"}) {
    folder.write(place + "/images/a.png"s, grey(1, 1, {5}));
    folder.write(place + "/masks/a.png"s, grey(1, 1, {5}));
    folder.write(place + "/images/b.png"s, grey(1, 1, {5}));
    folder.write(place + "/masks/b.png"s, grey(1, 1, {5}));
  }
  const ImageSet one = read_images(folder.path("one"), {.normalize = false});
  EXPECT_EQ(one.content(), read_images(folder.path("two"), {.normalize = false}).content());
  EXPECT_THAT(one.same_content(1), ElementsAre(0, 1));
  folder.write("two/masks/b.png", grey(1, 1, {200}));
  const ImageSet two = read_images(folder.path("two"), {.normalize = false});
  EXPECT_NE(one.content(), two.content());
  EXPECT_THAT(two.same_content(1), ElementsAre(1));
}

TEST(ImageLoader, QuarantiningAnImageQuarantinesItsCopies) {
  const ScratchFolder folder;
  for (const char* name : {"a", "b", "c"}) {
    folder.write("images/"s + name + ".png", grey(1, 1, {static_cast<std::uint8_t>(*name == 'b' ? 9 : 5)}));
    folder.write("masks/"s + name + ".png", grey(1, 1, {0}));
  }
  Loader<ImageBatch> loader = training_batches(read_images(folder.path(), {.normalize = false}),
                                               {.batch = 1, .size = 1});
  loader.quarantine(2);
  EXPECT_THAT(loader.state().integers("quarantine"), ElementsAre(0, 2));
  for (int i = 0; i < 5; ++i) EXPECT_THAT(loader.next().origin.samples, ElementsAre(1));
}

ImageSet numbered(std::int64_t count) {
  ImageSet set;
  for (std::int64_t i = 0; i < count; ++i) {
    ImageSample sample;
    sample.name = std::to_string(i);
    sample.content = sample.name;
    sample.pair = {Tensor::full({6, 6, 1}, static_cast<double>(i)),
                   Tensor::full({6, 6}, static_cast<double>(i % 2), DType::u8)};
    set.samples.push_back(sample);
  }
  return set;
}

TEST(SplitImages, HoldsOutTheLastImagesRoundedDownAndAtLeastOne) {
  EXPECT_EQ(split_images(numbered(30), 0.2).validation.size(), 6);
  EXPECT_EQ(split_images(numbered(9), 0.2).validation.size(), 1);
  EXPECT_EQ(split_images(numbered(2), 0.2).validation.samples[0].name, "1");
  EXPECT_THROW(split_images(numbered(1), 0.2), DataError);
  EXPECT_THROW(split_images(numbered(3), 1), ArgumentError);
}

TEST(ImageBatches, RowsBelongToTheirSamplesAndRepeatExactly) {
  const ImageLoaderOptions options{.batch = 3, .size = 4, .seed = 2};
  auto loader = training_batches(numbered(5), options);
  auto other = training_batches(numbered(5), {.batch = 3, .size = 4, .seed = 2, .prefetch = 0});
  for (int i = 0; i < 10; ++i) {
    const ImageBatch batch = loader.next();
    EXPECT_EQ(batch.images.shape(), (Shape{3, 4, 4, 1}));
    EXPECT_EQ(batch.masks.shape(), (Shape{3, 4, 4}));
    EXPECT_EQ(batch.masks.dtype(), DType::u8);
    for (std::size_t row = 0; row < 3; ++row) {
      EXPECT_EQ(batch.images.at(static_cast<std::int64_t>(row) * 16), batch.origin.samples[row]);
      EXPECT_EQ(batch.masks.at(static_cast<std::int64_t>(row) * 16), batch.origin.samples[row] % 2);
    }
    EXPECT_EQ(other.next().images.to_vector<float>(), batch.images.to_vector<float>());
    EXPECT_EQ(batch.rows(1, 2).images.at(0), batch.origin.samples[1]);
  }
}

TEST(ImageBatches, EvaluationHasEveryWholeImageOnce) {
  auto loader = evaluation_batches(numbered(3));
  for (int i = 0; i < 3; ++i) {
    const ImageBatch batch = loader.next();
    EXPECT_EQ(batch.images.shape(), (Shape{1, 6, 6, 1}));
    EXPECT_EQ(batch.images.at(0), i);
  }
  EXPECT_EQ(loader.batches_per_epoch(), 3);
}

/// Writes a dataset with HDF5 calls.
template <class T>
void put(const std::string& path, const char* name, hid_t type, const std::vector<hsize_t>& dims,
         const std::vector<T>& values) {
  const hid_t file = std::filesystem::exists(path) ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                                                   : H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
  const hid_t data = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  H5Dclose(data);
  H5Sclose(space);
  H5Fclose(file);
}

TEST(ImageFile, ReadsGreyColorAndFloatDatasets) {
  const ScratchFolder folder;
  put<std::uint8_t>(folder.path("grey.h5"), "images", H5T_NATIVE_UINT8, {2, 1, 2}, {0, 255, 51, 102});
  put<std::uint8_t>(folder.path("grey.h5"), "masks", H5T_NATIVE_UINT8, {2, 1, 2, 1}, {0, 255, 127, 128});
  const ImageSet set = read_images(folder.path("grey.h5"), {.normalize = false});
  ASSERT_EQ(set.size(), 2);
  EXPECT_THAT(set.samples[1].pair.image.to_vector<float>(), ElementsAre(0.2f, 0.4f));
  EXPECT_THAT(set.samples[1].pair.mask.to_vector<double>(), ElementsAre(0, 1));

  put<float>(folder.path("color.h5"), "images", H5T_NATIVE_FLOAT, {1, 1, 1, 3}, {0.5f, -1, 2});
  put<std::int32_t>(folder.path("color.h5"), "masks", H5T_NATIVE_INT32, {1, 1, 1}, {1});
  const ImageSet color = read_images(folder.path("color.h5"), {.normalize = false});
  EXPECT_EQ(color.channels, 3);
  EXPECT_THAT(color.samples[0].pair.image.to_vector<float>(), ElementsAre(0.5f, -1, 2));
  EXPECT_THAT(color.samples[0].pair.mask.to_vector<double>(), ElementsAre(1));
}

TEST(ImageFile, BadFilesAreDataErrors) {
  const ScratchFolder folder;
  const auto reason = [&](const char* name) {
    return error_of<DataError>([&] { read_images(folder.path(name), {.classes = 2}); });
  };
  folder.write("text.h5", "no HDF5");
  EXPECT_THAT(reason("text.h5"), HasSubstr("text.h5"));
  put<std::uint8_t>(folder.path("half.h5"), "images", H5T_NATIVE_UINT8, {1, 1, 2}, {1, 2});
  EXPECT_THAT(reason("half.h5"), HasSubstr("\"masks\" is missing"));
  put<std::uint8_t>(folder.path("half.h5"), "masks", H5T_NATIVE_UINT8, {1, 2, 1}, {1, 0});
  EXPECT_THAT(reason("half.h5"), HasSubstr("axis 1 is 2, wanted 1"));
  put<float>(folder.path("nan.h5"), "images", H5T_NATIVE_FLOAT, {1, 1, 1}, {std::nanf("")});
  put<std::uint8_t>(folder.path("nan.h5"), "masks", H5T_NATIVE_UINT8, {1, 1, 1}, {1});
  EXPECT_THAT(reason("nan.h5"), HasSubstr("not finite"));
  put<std::uint8_t>(folder.path("ids.h5"), "images", H5T_NATIVE_UINT8, {1, 1, 1}, {1});
  put<std::uint8_t>(folder.path("ids.h5"), "masks", H5T_NATIVE_UINT8, {1, 1, 1}, {2});
  EXPECT_THAT(reason("ids.h5"), HasSubstr("mask 0: wanted class ids 0 to 1, got 2"));
}

}  // namespace
}  // namespace binade::io
