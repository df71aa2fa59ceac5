#include "binade/io/data/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "binade/core/error.h"
#include "binade/core/random.h"
#include "tests/io/png_bytes.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::string_literals;

TEST(Png, GreyOfEveryDepthKeepsItsIntegers) {
  EXPECT_THAT(decode_png(PngBytes{.width = 10, .depth = 1, .rows = "\0\xA5\x40"s}.file(), "a").values,
              ElementsAre(1, 0, 1, 0, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(decode_png(PngBytes{.width = 5, .depth = 2, .rows = "\0\x1B\xC0"s}.file(), "a").values,
              ElementsAre(0, 1, 2, 3, 3));
  EXPECT_THAT(decode_png(PngBytes{.width = 3, .depth = 4, .rows = "\0\x0F\x70"s}.file(), "a").values,
              ElementsAre(0, 15, 7));
  EXPECT_THAT(decode_png(PngBytes{.width = 2, .height = 2, .rows = "\0\x00\xFF\0\x01\x80"s}.file(), "a").values,
              ElementsAre(0, 255, 1, 128));
  const Image deep = decode_png(PngBytes{.width = 2, .depth = 16, .rows = "\0\x12\x34\xFF\xFF"s}.file(), "a");
  EXPECT_THAT(deep.values, ElementsAre(0x1234, 0xFFFF));
  EXPECT_EQ(deep.depth, 16);
  EXPECT_EQ(deep.max_value(), 65535);
}

TEST(Png, ColorAndAlphaKeepTheirChannels) {
  const Image rgb = decode_png(PngBytes{.color = 2, .rows = "\0\x01\x02\x03"s}.file(), "a");
  EXPECT_EQ(rgb.channels, 3);
  EXPECT_THAT(rgb.values, ElementsAre(1, 2, 3));
  const Image rgba = decode_png(PngBytes{.color = 6, .rows = "\0\x01\x02\x03\x04"s}.file(), "a");
  EXPECT_EQ(rgba.channels, 4);
  EXPECT_THAT(rgba.values, ElementsAre(1, 2, 3, 4));
  const Image grey_alpha = decode_png(PngBytes{.depth = 16, .color = 4, .rows = "\0\x01\x02\x03\x04"s}.file(), "a");
  EXPECT_EQ(grey_alpha.channels, 2);
  EXPECT_THAT(grey_alpha.values, ElementsAre(0x0102, 0x0304));
}

TEST(Png, APaletteGivesColorsOrIndices) {
  const PngBytes png{.width = 4,
                     .depth = 2,
                     .color = 3,
                     .rows = "\0\x1B"s,
                     .palette = "\x00\x00\x00\x0A\x0B\x0C\xFF\x00\x00\x01\x02\x03"s};
  const Image colors = decode_png(png.file(), "a");
  EXPECT_EQ(colors.channels, 3);
  EXPECT_EQ(colors.depth, 8);
  EXPECT_THAT(colors.values, ElementsAre(0, 0, 0, 10, 11, 12, 255, 0, 0, 1, 2, 3));
  const Image indices = decode_png(png.file(), "a", {.palette_as_index = true});
  EXPECT_EQ(indices.channels, 1);
  EXPECT_THAT(indices.values, ElementsAre(0, 1, 2, 3));
}

TEST(Png, TransparencyOfAPaletteOrAColorAddsNoChannel) {
  const PngBytes png{.width = 2,
                     .color = 3,
                     .rows = "\0\x01\x00"s,
                     .palette = "\x01\x02\x03\x04\x05\x06"s,
                     .transparency = "\x00\x80"s};
  EXPECT_THAT(decode_png(png.file(), "a").values, ElementsAre(4, 5, 6, 1, 2, 3));
  EXPECT_THAT(decode_png(PngBytes{.rows = "\0\x09"s, .transparency = "\0\x09"s}.file(), "a").values, ElementsAre(9));
}

TEST(Png, InterlacedImagesAreRead) {
  // Adam7 of a 4 x 4 image with values 0 … 15: passes 1, 4, 5, 6, 7 have pixels (2 and 3 begin beyond column 4 or row
  // 4).
  const std::string rows = "\0\x00"s + "\0\x02"s + "\0\x08\x0A"s + "\0\x01\x03"s + "\0\x09\x0B"s +
                           "\0\x04\x05\x06\x07"s + "\0\x0C\x0D\x0E\x0F"s;
  const Image image = decode_png(PngBytes{.width = 4, .height = 4, .interlace = 1, .rows = rows}.file(), "a");
  for (int i = 0; i < 16; ++i) EXPECT_EQ(image.values[static_cast<std::size_t>(i)], i);
}

TEST(Png, ATruncatedFileIsRefusedAtEveryLength) {
  const std::string whole = PngBytes{.width = 3, .height = 2, .rows = "\0\1\2\3\0\4\5\6"s}.file();
  ASSERT_NO_THROW(decode_png(whole, "cells.png"));
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THAT(error_of<DataError>([&] { decode_png(whole.substr(0, length), "cells.png"); }), HasSubstr("cells.png"))
        << length;
}

TEST(Png, EveryFlippedBitIsRefused) {
  const std::string whole =
      PngBytes{.width = 3, .height = 2, .color = 3, .rows = "\0\1\0\1\0\1\1\0"s, .palette = "\0\0\0\xFF\xFF\xFF"s}
          .file();
  ASSERT_NO_THROW(decode_png(whole, "a"));
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THROW(decode_png(damaged, "a"), DataError) << "bit " << bit % 8 << " of byte " << bit / 8;
  }
}

TEST(Png, SizesThatTheFileCannotHoldAreRefusedBeforeMemoryIsTaken) {
  const PngBytes bomb{.width = 60000, .height = 60000, .depth = 16, .color = 6, .rows = "\0\0"s};
  EXPECT_THAT(error_of<DataError>([&] { decode_png(bomb.file(), "bomb.png"); }), HasSubstr("bomb.png"));
  const PngBytes large{.width = 4000, .height = 4000, .rows = "\0\0"s};
  EXPECT_THAT(error_of<DataError>([&] { decode_png(large.file(), "large.png"); }), HasSubstr("cannot hold"));
  EXPECT_THAT(error_of<DataError>(
                  [&] { decode_png(PngBytes{.width = 9, .height = 9}.file(), "a", {.max_pixels = 80}); }),
              HasSubstr("80 pixels"));
}

TEST(Png, OtherFilesAreRefused) {
  EXPECT_THAT(error_of<DataError>([] { decode_png("", "a.png"); }), HasSubstr("empty"));
  EXPECT_THAT(error_of<DataError>([] { decode_png("GIF89a and more", "a.png"); }), HasSubstr("PNG"));
  EXPECT_THAT(error_of<DataError>([] { read_png("/no/such.png"); }), HasSubstr("/no/such.png"));
}

TEST(Png, OfAnotherFileOnlyTheFirstBytesAreRead) {
  const ScratchFolder folder;
  const std::string path = folder.write("large.png", std::string(100'000, 'x'));
  EXPECT_EQ(read_png_bytes(path), "xxxxxxxx");
  EXPECT_THAT(error_of<DataError>([&] { read_png(path); }), HasSubstr("large.png"));
}

TEST(Png, AWrittenImageIsReadBack) {
  const RandomStream random{.seed = 3};
  const ScratchFolder folder;
  for (const int depth : {1, 2, 4, 8, 16}) {
    for (int channels = 1; channels <= (depth < 8 ? 1 : 4); ++channels) {
      for (const auto& [width, height] : {std::pair{1, 1}, {7, 5}, {33, 2}}) {
        Image image{width, height, channels, depth, {}};
        for (int i = 0; i < width * height * channels; ++i)
          image.values.push_back(static_cast<std::uint16_t>(random.below(static_cast<std::uint64_t>(i), 1u << depth)));
        write_png(folder.path("image.png"), image);
        const Image back = read_png(folder.path("image.png"));
        EXPECT_EQ(back.values, image.values) << depth << " bits, " << channels << " channels";
        EXPECT_EQ(back.depth, depth);
        EXPECT_EQ(back.channels, channels);
        EXPECT_EQ(encode_png(image), folder.read("image.png"));
      }
    }
  }
}

// libpng has a maximum side for writing. Once, larger images were read, and their masks could not be written.
TEST(Png, ImagesTooLargeToWriteAreNotRead) {
  const std::uint32_t side = 1 << 20;
  const PngBytes wide{.width = side, .height = 1, .depth = 1, .rows = std::string(1 + side / 8, '\0')};
  const PngBytes tall{.width = 1, .height = side, .rows = std::string(2 * side, '\0')};
  EXPECT_THAT(error_of<DataError>([&] { decode_png(wide.file(), "wide.png"); }), HasSubstr("1000000 a side"));
  EXPECT_THAT(error_of<DataError>([&] { decode_png(tall.file(), "tall.png"); }), HasSubstr("1000000 a side"));
  EXPECT_THROW(encode_png({side, 1, 1, 8, std::vector<std::uint16_t>(side)}), ArgumentError);
  const Image longest{1, 1000000, 1, 1, std::vector<std::uint16_t>(1000000)};
  EXPECT_EQ(decode_png(encode_png(longest), "longest.png").height, longest.height);
}

TEST(Png, InvalidImagesAreNotWritten) {
  EXPECT_THROW(encode_png({2, 2, 1, 8, {1, 2, 3}}), ArgumentError);
  EXPECT_THROW(encode_png({1, 1, 1, 8, {256}}), ArgumentError);
  EXPECT_THROW(encode_png({1, 1, 3, 4, {1, 2, 3}}), ArgumentError);
  EXPECT_THROW(encode_png({0, 0, 1, 8, {}}), ArgumentError);
  EXPECT_THROW(write_png("/no/such/folder/a.png", {1, 1, 1, 8, {1}}), StorageError);
}

}  // namespace
}  // namespace binade::io
