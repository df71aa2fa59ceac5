#include "binade/io/data/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "binade/core/error.h"
#include "binade/io/data/jpeg.h"
#include "binade/io/data/make_loader.h"
#include "binade/io/data/png.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A segment of a JPEG: marker, length, body.
std::string segment(char marker, const std::string& body) {
  const auto length = static_cast<unsigned>(body.size() + 2);
  return std::string{'\xFF', marker, static_cast<char>(length >> 8), static_cast<char>(length & 255)} + body;
}

// An 8 x 8 grey JPEG of value 128, written from the specification (ITU-T T.81). Every quantizer is 1. Each Huffman
// table has only the code 0: for category 0, or for the end of a block. So the data of the only block are the bits 00
// and padding.
std::string grey_jpeg() {
  std::string quantizers(64, '\1'), counts(16, '\0');
  counts[0] = 1;
  return std::string("\xFF\xD8") + segment('\xDB', std::string(1, '\0') + quantizers) +
         segment('\xC0', std::string("\x08\0\x08\0\x08\x01\x01\x11\0", 9)) +
         segment('\xC4', std::string(1, '\x00') + counts + std::string(1, '\0')) +
         segment('\xC4', std::string(1, '\x10') + counts + std::string(1, '\0')) +
         segment('\xDA', std::string("\x01\x01\0\0\x3F\0", 6)) + '\x3F' + "\xFF\xD9";
}

std::string png(std::uint16_t value) {
  return encode_png({.width = 2, .height = 1, .channels = 1, .depth = 8, .values = {value, 255}});
}

TEST(ImageFolder, ClassesAreSubfolders) {
  const ScratchFolder scratch;
  scratch.write("dog/b.png", png(51));
  scratch.write("cat/2/x.PNG", png(102));
  scratch.write("cat/1.png", png(0));
  scratch.write("cat/notes.txt", "no image");
  scratch.write("cat/.hidden.png", "no image");
  scratch.write(".thumbs/a.png", "no image");
  const ImageFolder folder(scratch.path());
  EXPECT_THAT(folder.classes(), ElementsAre("cat", "dog"));
  ASSERT_EQ(folder.size(), 3);
  EXPECT_EQ(folder.file(0), "cat/1.png");
  EXPECT_EQ(folder.file(1), "cat/2/x.PNG");
  const LabeledImage dog = folder.get(2);
  EXPECT_EQ(dog.label, 1);
  EXPECT_EQ(dog.image.shape(), (Shape{1, 2, 3}));
  EXPECT_EQ(dog.image.at(0), 0.2f);
  EXPECT_EQ(ImageFolder(scratch.path(), {.channels = 1}).get(1).image.at(0), 0.4f);
  EXPECT_TRUE(folder.unreadable().empty());
  const std::string content = folder.content();
  scratch.write("dog/c.png", png(51));
  EXPECT_NE(ImageFolder(scratch.path()).content(), content);

  auto loader = make_loader(folder, {.batch = 3, .order = SampleOrder::kSequential});
  const auto batch = loader.next();
  EXPECT_EQ(batch->images.shape(), (Shape{3, 1, 2, 3}));
  EXPECT_THAT(batch->labels.to_vector<std::int64_t>(), ElementsAre(0, 0, 1));
}

TEST(ImageFolder, NamesWhatItCannotRead) {
  const ScratchFolder scratch;
  EXPECT_THAT(error_of<DataError>([&] { ImageFolder(scratch.path("none")); }), HasSubstr("none"));
  EXPECT_THAT(error_of<DataError>([&] { ImageFolder(scratch.path("")); }), HasSubstr("subfolder for each class"));
  std::filesystem::create_directories(scratch.path("a"));
  EXPECT_THAT(error_of<DataError>([&] { ImageFolder(scratch.path("")); }), HasSubstr("/a: wanted PNG or JPEG"));
  scratch.write("a/torn.png", png(1).substr(0, 40));
  scratch.write("a/text.jpg", "no image");
  scratch.write("a/fine.png", png(1));
  const ImageFolder folder(scratch.path());
  EXPECT_THAT(folder.unreadable(), ElementsAre(HasSubstr("a/text.jpg"), HasSubstr("a/torn.png")));
  auto loader = make_loader(folder, {.batch = 3, .order = SampleOrder::kSequential, .workers = 2});
  EXPECT_THAT(error_of<DataError>([&] { loader.next(); }),
              ::testing::AllOf(HasSubstr("sample 1 (slot 1, epoch 0)"), HasSubstr("a/text.jpg")));
  scratch.write("a/b.webp", "");
  EXPECT_THAT(error_of<DataError>([&] { ImageFolder(scratch.path("")); }), HasSubstr("b.webp"));
}

TEST(ImageFolder, ALinkToAFolderAboveEnds) {
  const ScratchFolder scratch;
  scratch.write("a/1.png", png(1));
  std::filesystem::create_directory_symlink(scratch.path("a"), scratch.path("a/again"));
  EXPECT_THROW(ImageFolder(scratch.path("")), DataError);
}

class Jpeg : public ::testing::Test {
  void SetUp() override {
    if (!can_decode_jpeg()) GTEST_SKIP() << "built without libjpeg-turbo";
  }
};

TEST_F(Jpeg, IsDecoded) {
  const Image image = decode_jpeg(grey_jpeg(), "a.jpg");
  EXPECT_EQ(image.width, 8);
  EXPECT_EQ(image.height, 8);
  EXPECT_EQ(image.channels, 1);
  for (const std::uint16_t value : image.values) EXPECT_EQ(value, 128);
  const ScratchFolder scratch;
  EXPECT_EQ(to_pixels(read_image(scratch.write("a.jpg", grey_jpeg())), 3).shape(), (Shape{8, 8, 3}));
}

/// A grey progressive JPEG of 8 x 8 pixels, with a separate scan for each bit of each coefficient.
std::string progressive_jpeg(int scans) {
  const std::string one_code = std::string(1, '\1') + std::string(16, '\0');  // the symbol 0 is the bit 0
  std::string file = "\xFF\xD8" + segment('\xDB', std::string(1, '\0') + std::string(64, '\1')) +
                     segment('\xC2', {8, 0, 8, 0, 8, 1, 1, 0x11, 0}) +
                     segment('\xC4', std::string(1, '\0') + one_code) +
                     segment('\xC4', std::string(1, '\x10') + one_code);
  const auto add_scan = [&](int coefficient, int high_bit, int bit) {
    const auto k = static_cast<char>(coefficient);
    file += segment('\xDA', {1, 1, 0, k, k, static_cast<char>(high_bit << 4 | bit)}) + '\x7F';
  };
  add_scan(0, 0, 0);
  for (int scan = 1; scan < scans; ++scan) {
    const int bit = 13 - (scan - 1) % 14;
    add_scan(1 + (scan - 1) / 14, bit == 13 ? 0 : bit + 1, bit);
  }
  return file + "\xFF\xD9";
}

// A small file could otherwise keep the decoder busy for hours: every scan passes over all pixels.
TEST_F(Jpeg, ManyScansAreRefused) {
  EXPECT_EQ(decode_jpeg(progressive_jpeg(400), "a.jpg").values, std::vector<std::uint16_t>(64, 128));
  EXPECT_THAT(error_of<DataError>([] { decode_jpeg(progressive_jpeg(800), "x/a.jpg"); }),
              HasSubstr("x/a.jpg: damaged JPEG: Progressive JPEG image has more than 500 scans"));
}

TEST_F(Jpeg, DamagedFilesAreNamed) {
  const std::string whole = grey_jpeg();
  for (std::size_t length = 0; length < whole.size() - 2; ++length)
    EXPECT_THAT(error_of<DataError>([&] { decode_jpeg(whole.substr(0, length), "x/a.jpg"); }), HasSubstr("x/a.jpg"));
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const char value : {'\0', '\x7F', '\xFF'}) {
      std::string changed = whole;
      changed[at] = value;
      try {
        EXPECT_LE(decode_jpeg(changed, "a.jpg").values.size(), 3u * 4096u * 2u * changed.size());
      } catch (const DataError&) {
      }
    }
  EXPECT_THAT(error_of<DataError>([&] { decode_jpeg(whole, "a.jpg", 63); }), HasSubstr("at most 63 pixels"));
}

}  // namespace
}  // namespace binade::io
