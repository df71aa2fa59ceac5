// Inputs that once made a reader fail (each comment says how), and limits that random inputs do not reach.
#include <gtest/gtest.h>

#include <span>

#include "binade/core/crc32c.h"
#include "binade/core/error.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/checkpoint/hdf5_profile.h"
#include "binade/io/checkpoint/manifest.h"
#include "binade/io/data/idx.h"
#include "binade/io/data/npy.h"
#include "binade/io/data/png.h"
#include "binade/io/exchange/safetensors.h"
#include "binade/io/text/tokenizer.h"
#include "examples/common/settings.h"
#include "tests/fuzz/profile_image.h"
#include "tests/fuzz/watch.h"
#include "tests/io/scratch_folder.h"

namespace binade::fuzz {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// One extent is 0, and the product of the other extents overflows. The reader missed this, and Shape threw an
// undocumented error.
TEST(HostileInput, ExtentsThatOverflowBesideAZeroAreRefused) {
  const std::string words = "extents";
  const std::string idx = std::string("\0\0\x08\3", 4) + std::string(4, '\0') + std::string(8, '\x7f');
  EXPECT_NE(io::error_of<DataError>([&] { io::decode_idx(idx, "a"); }).find(words), std::string::npos);
  std::string header = R"({"w":{"dtype":"U8","shape":[0,281474976710656,281474976710656],"data_offsets":[0,0]}})";
  EXPECT_NE(
      io::error_of<DataError>([&] { io::decode_safetensors(bytes_of(le(header.size(), 8) + header)); }).find(words),
      std::string::npos);
  header = "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 281474976710656, 281474976710656), }\n";
  EXPECT_NE(io::error_of<DataError>([&] {
              io::decode_npy(bytes_of(std::string("\x93NUMPY\1\0", 8) + le(header.size(), 2) + header), "a");
            }).find(words),
            std::string::npos);
  ProfileImage image;
  image.objects.push_back({.messages = message::group_frame()});
  image.objects[0].messages.push_back({.type = 12,
                                       .body = message::attribute("a", message::integer_type(1, false),
                                                                  message::space({0, 1ull << 48, 1ull << 48}), "")});
  EXPECT_NE(io::error_of<NoCheckpointError>([&] {
              io::read_profile(bytes_of(image.lay_out().bytes), io::kUserBlockBytes);
            }).find(words),
            std::string::npos);
}

// The first line ends after the name of the format, and its checksum is right: substr threw out_of_range.
TEST(HostileInput, AManifestThatEndsAfterItsNameIsNotWhole) {
  const std::string body = "binade-manifest 1";
  EXPECT_FALSE(io::manifest_from(fmt::format("{} {:08x}\n", body, crc32c(body.data(), body.size()))).whole);
}

// An empty list within a list was read out of bounds; a deeply nested one overflowed the stack.
TEST(HostileInput, NestedListsAsSettingsAreRefused) {
  std::vector<std::string> words;
  examples::Settings table;
  table.add("words", &words, "");
  EXPECT_NE(io::error_of<ArgumentError>([&] { table.apply_json(R"({"words": [[]]})", "c"); }).find("a list of them"),
            std::string::npos);
  const std::string deep = R"({"words": )" + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_NE(io::error_of<DataError>([&] { table.apply_json(deep, "c"); }).find("nested"), std::string::npos);
}

// An empty added token matched everywhere, and tokenization did not end.
TEST(HostileInput, AnAddedTokenWithoutTextIsRefused) {
  const std::string vocabulary = R"({"added":{"":1},"merges":[],"vocab":{"a":0}})";
  EXPECT_NE(io::error_of<DataError>([&] { io::make_bpe_tokenizer(vocabulary); }).find("without text"),
            std::string::npos);
}

// A gzip file of 32 KiB that decompresses to 32 MiB, more than its IDX header says: it was decompressed completely
// before the check.
TEST(HostileInput, AGzipFileIsDecompressedNoFurtherThanItsHeaderSays) {
  const std::string start = std::string("\0\0\x08\1", 4) + std::string("\0\0\0\4", 4);
  const std::string member = std::string("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  std::string body;  // of stored deflate blocks
  for (int block = 0; block < 40; ++block)
    body += std::string("\0\xff\xff\0\0", 5) + (block == 0 ? start : std::string(8, '\0')) +
            std::string(65535 - 8, '\0');
  EXPECT_NE(
      io::error_of<DataError>([&] { io::decode_idx(member + body, "a"); }).find("more than its IDX header declares"),
      std::string::npos);
  const std::string liar = std::string("\0\0\x08\1", 4) + std::string("\x7f\0\0\0", 4);
  EXPECT_NE(io::error_of<DataError>([&] {
              io::decode_idx(member + std::string("\0\x08\0\xf7\xff", 5) + liar, "a");
            }).find("more than"),
            std::string::npos);
}

// A file of 46 bytes with the header of an eXIf chunk of 800 MB: libpng allocated these.
TEST(HostileInput, ATruncatedPngChunkTakesNoMemory) {
  const std::string header = std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\3\0\0\0\1\4\0\0\0\0\xfb\x7b\xa6\x69", 33);
  const MemoryWatch memory;
  const std::string words = io::error_of<DataError>([&] {
    io::decode_png(header +
                       std::string("\x30\0\x2a\x65"
                                   "eXIf",
                                   8) +
                       std::string(5, 'x'),
                   "a.png");
  });
  EXPECT_NE(words.find("truncated"), std::string::npos) << words;
  EXPECT_LT(memory.peak(), 1u << 20);
}

ObjectHeader group_of(std::vector<Message> links) {
  ObjectHeader object{.messages = message::group_frame(), .size_width = 4};
  for (Message& m : links) object.messages.push_back(std::move(m));
  return object;
}

std::string walk(const ProfileImage& image, std::size_t* peak = nullptr) {
  const std::string bytes = image.lay_out().bytes;
  const MemoryWatch memory;
  const std::string words = io::error_of<NoCheckpointError>(
      [&] { io::read_profile(bytes_of(bytes), io::kUserBlockBytes); });
  if (peak != nullptr) *peak = memory.peak() - std::min(memory.peak(), bytes.size());
  return words;
}

// For every link, an entry with its full path was queued before any object was checked.
TEST(HostileInput, TotalLinksAndPathsAreBounded) {
  constexpr std::size_t kMemory = 64u << 20;
  std::size_t peak = 0;
  std::vector<Message> many;
  for (int i = 0; i < 65537; ++i) many.push_back(message::link(std::to_string(i), 0));
  EXPECT_NE(walk({.objects = {group_of(many)}}, &peak).find("links"), std::string::npos);
  EXPECT_LT(peak, kMemory);
  many.pop_back();
  many.pop_back();
  EXPECT_NE(walk({.objects = {group_of(many)}}, &peak).find("reached twice"), std::string::npos);
  EXPECT_LT(peak, kMemory);

  many.resize(65000);
  ProfileImage deep;
  for (int level = 0; level < 4; ++level)
    deep.objects.push_back(group_of({message::link(std::string(250, 'n'), level + 1)}));
  deep.objects.push_back(group_of(many));
  EXPECT_NE(walk(deep, &peak).find("paths of more than"), std::string::npos);
  EXPECT_LT(peak, kMemory);
}

TEST(HostileInput, AttributesAreBoundedPerObjectAndInTotal) {
  std::vector<Message> attributes;
  const auto named = [](const std::string& name) {
    return Message{.type = 12,
                   .body = message::attribute(name, message::integer_type(1, false), message::space({}), "1")};
  };
  for (int i = 0; i < 1024; ++i) attributes.push_back(named(std::to_string(i)));
  ProfileImage image;
  std::vector<Message> links;
  for (int i = 1; i <= 129; ++i) links.push_back(message::link(std::to_string(i), i));
  image.objects.push_back(group_of(links));
  for (int i = 1; i <= 129; ++i) image.objects.push_back(group_of(attributes));
  std::size_t peak = 0;
  EXPECT_NE(walk(image, &peak).find("too many attributes"), std::string::npos);
  EXPECT_LT(peak, std::size_t{64} << 20);
  image.objects.resize(129);  // 128 objects with 1024 attributes reach the limit; link 129 has no target
  EXPECT_EQ(walk(image).find("too many attributes"), std::string::npos);
  attributes.push_back(named("one more"));
  EXPECT_NE(walk({.objects = {group_of(attributes)}}).find("too many attributes"), std::string::npos);
}

// The block was read again and again until the budget of header bytes was spent.
TEST(HostileInput, AContinuationOfItselfIsRefused) {
  ProfileImage image;
  image.objects.push_back(group_of({}));
  image.objects[0].continued_from = 1;
  ProfileImage::Laid laid = image.lay_out();
  const ProfileImage::Block& block = laid.blocks.back();
  image.objects[0].messages.push_back(
      {.type = 0x10, .body = le(block.begin - io::kUserBlockBytes, 8) + le(4 + (4 + 6) + (4 + 16) + 4, 8)});
  EXPECT_NE(walk(image).find("a continuation block is reached twice"), std::string::npos) << walk(image);
}

TEST(HostileInput, NamesWithInvalidCodePointsAreRefused) {
  for (const char* name : {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf", "\xc2\xa0"})
    EXPECT_TRUE(io::is_valid_name(name)) << name;
  for (const char* name :
       {"", ".", "..", "a/b", "\x1b", "\x7f", "\x80", "\xc1\x80", "\xc2", "\xc2\x41", "\xc2\x85", "\xe0\x80\x80",
        "\xed\xa0\x80", "\xe2\x82", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"})
    EXPECT_FALSE(io::is_valid_name(name)) << name;
  EXPECT_TRUE(io::is_valid_name(std::string(255, 'n')));
  EXPECT_FALSE(io::is_valid_name(std::string(256, 'n')));
}

}  // namespace
}  // namespace binade::fuzz
