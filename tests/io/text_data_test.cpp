#include "binade/io/data/text_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "binade/core/error.h"
#include "binade/io/files/read_file.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TokenSequence counting(std::int64_t count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i);
  return {tokens, std::max<std::int64_t>(count, 1)};
}

std::string as_bytes(const std::vector<std::uint16_t>& values) {
  std::string bytes(values.size() * 2, '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(ReadText, AFolderIsReadInOrderOfFileNames) {
  const ScratchFolder folder;
  folder.write("b.txt", "second\n");
  folder.write("a.txt", "first\n");
  folder.write(".hidden", "never");
  std::filesystem::create_symlink("a.txt", folder.path("c.txt"));
  const Text text = read_text(folder.path());
  EXPECT_EQ(text.bytes, "first\nsecond\n");
  ASSERT_EQ(text.files.size(), 2u);
  EXPECT_EQ(text.files[1].name, "b.txt");
  EXPECT_EQ(text.files[1].begin, 6u);
}

TEST(ReadText, ContentHashDependsOnContentAndNotOnTheFolder) {
  const ScratchFolder folder;
  folder.write("one/a.txt", "same");
  folder.write("two/a.txt", "same");
  folder.write("three/a.txt", "sama");
  folder.write("four/b.txt", "same");
  EXPECT_EQ(read_text(folder.path("one")).content, read_text(folder.path("two")).content);
  EXPECT_NE(read_text(folder.path("one")).content, read_text(folder.path("three")).content);
  EXPECT_NE(read_text(folder.path("one")).content, read_text(folder.path("four")).content);
  EXPECT_EQ(read_text(folder.path("one/a.txt")).content, read_text(folder.path("four/b.txt")).content);
}

TEST(ReadText, BadTextIsADataErrorThatNamesTheFile) {
  const ScratchFolder folder;
  EXPECT_THAT(error_of<DataError>([&] { read_text(folder.path("missing.txt")); }), HasSubstr("missing.txt"));
  EXPECT_THAT(error_of<DataError>([&] { read_text(folder.write("empty.txt", "")); }), HasSubstr("empty"));
  EXPECT_THAT(error_of<DataError>([&] { read_text(folder.write("nul.txt", std::string("ab\0cd", 5))); }),
              HasSubstr("offset 2"));
  EXPECT_THAT(error_of<DataError>([&] { read_text(folder.write("control.txt", "\1\2\3\4abc")); }),
              HasSubstr("control.txt"));
  std::filesystem::create_directory(folder.path("nothing"));
  EXPECT_THAT(error_of<DataError>([&] { read_text(folder.path("nothing")); }), HasSubstr("none"));
  EXPECT_THAT(error_of<DataError>([&] { read_text("/dev/zero"); }), HasSubstr("regular file"));
}

TEST(ReadText, ABadByteIsNamedByFileAndOffset) {
  const ScratchFolder folder;
  folder.write("many/a.txt", "caf\xc3\xa9");
  folder.write("many/b.txt", "caf\xe9 au lait");
  const auto reason = [](const std::string& path) { return error_of<DataError>([&] { check_utf8(read_text(path)); }); };
  EXPECT_THAT(reason(folder.path("many")), HasSubstr("many/b.txt: wanted UTF-8, got byte 0xe9 at offset 3;"));
  EXPECT_THAT(reason(folder.path("many/b.txt")), HasSubstr("many/b.txt: wanted UTF-8, got byte 0xe9 at offset 3;"));
  check_utf8(read_text(folder.path("many/a.txt")));
}

TEST(ReadText, TheEmbeddedTextHasEachFileOnce) {
  const Text text = embedded_text();
  EXPECT_GT(text.bytes.size(), 100000u);
  const std::string title = "GNU GENERAL PUBLIC LICENSE\n                       Version 3";
  const std::size_t first = text.bytes.find(title);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(text.bytes.find(title, first + 1), std::string::npos);
}

TEST(SplitText, HoldsOutTheLastTokensRoundedDownAndAtLeastOne) {
  const TextSplit split = split_text(counting(1115394), 0.1);
  EXPECT_EQ(split.validation.size(), 111539);
  EXPECT_EQ(split.train.size(), 1115394 - 111539);
  EXPECT_EQ(split.validation[0], 1115394 - 111539);
  EXPECT_EQ(split_text(counting(100), 0.29).validation.size(), 29);
  EXPECT_EQ(split_text(counting(5), 0.1).validation.size(), 1);
  EXPECT_THROW(split_text(counting(1), 0.5), DataError);
  EXPECT_THROW(split_text(counting(10), 0.0), ArgumentError);
  EXPECT_THROW(split_text(counting(10), 1.0), ArgumentError);
}

TEST(TrainingBatches, TargetsAreTheNextTokensAndOffsetsCoverTheText) {
  const TokenSequence text = counting(40);
  auto loader = training_batches(text, {.context = 8, .batch = 5, .seed = 3});
  std::vector<int> seen(40);
  for (int i = 0; i < 200; ++i) {
    const TextBatch batch = loader.next();
    ASSERT_EQ(batch.tokens.shape(), (Shape{5, 8}));
    for (std::int64_t k = 0; k < 40; ++k) {
      ASSERT_EQ(batch.tokens.at(k), batch.origin.samples[static_cast<std::size_t>(k / 8)] + k % 8);
      ASSERT_EQ(batch.targets.at(k), batch.tokens.at(k) + 1);
    }
    for (const std::int64_t offset : batch.origin.samples) ++seen[static_cast<std::size_t>(offset)];
  }
  // 1000 draws of 32 offsets: each is seen about 31 times (a Poisson count of 31 lies outside 5 … 80 once in 10^8).
  for (int offset = 0; offset < 32; ++offset)
    EXPECT_TRUE(seen[offset] > 5 && seen[offset] < 80) << offset << ": " << seen[offset];
  EXPECT_EQ(seen[32], 0);
}

TEST(TrainingBatches, ShuffledWindowsHaveEachWindowOncePerEpoch) {
  auto loader = training_batches(counting(41), {.context = 8, .batch = 5, .seed = 3, .shuffled_windows = true});
  EXPECT_EQ(loader.options().samples, 5);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int64_t> windows = loader.next().origin.samples;
    std::sort(windows.begin(), windows.end());
    EXPECT_THAT(windows, ElementsAre(0, 1, 2, 3, 4));
  }
}

TEST(TrainingBatches, ATextOfContextTokensIsTooShort) {
  EXPECT_THAT(error_of<DataError>([] { training_batches(counting(8), {.context = 8}); }), HasSubstr("context + 1 = 9"));
  EXPECT_NO_THROW(training_batches(counting(9), {.context = 8}).next());
}

TEST(EvaluationBatches, EveryTokenButTheFirstIsATargetOnce) {
  for (const std::int64_t size : {2, 8, 9, 10, 16, 17, 18, 40}) {
    auto loader = evaluation_batches(counting(size), {.context = 8, .batch = 2});
    std::vector<int> targeted(static_cast<std::size_t>(size));
    for (std::int64_t b = 0; b < loader.batches_per_epoch(); ++b) {
      const TextBatch batch = loader.next();
      for (std::int64_t k = 0; k < batch.targets.numel(); ++k)
        if (batch.targets.at(k) != kIgnoredTarget) {
          ASSERT_EQ(batch.targets.at(k), batch.tokens.at(k) + 1);
          ++targeted[static_cast<std::size_t>(batch.targets.at(k))];
        }
    }
    EXPECT_EQ(targeted[0], 0);
    for (std::int64_t i = 1; i < size; ++i) EXPECT_EQ(targeted[static_cast<std::size_t>(i)], 1) << i << " of " << size;
  }
  EXPECT_THROW(evaluation_batches(counting(1), {.context = 8}), DataError);
}

TEST(TokenFile, BareAndLlmcFilesAreRead) {
  const ScratchFolder folder;
  const TokenSequence bare = read_token_file(folder.write("bare.bin", as_bytes({1, 50256, 7})), 50257);
  EXPECT_EQ(bare.size(), 3);
  EXPECT_EQ(bare[1], 50256);
  std::vector<std::uint32_t> header(256);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = 2;
  std::string bytes(1024, '\0');
  std::memcpy(bytes.data(), header.data(), 1024);
  const TokenSequence with_header = read_token_file(folder.write("llmc.bin", bytes + as_bytes({5, 6})), 50257);
  EXPECT_EQ(with_header.size(), 2);
  EXPECT_EQ(with_header[1], 6);
}

TEST(TokenFile, DamageIsADataErrorWithItsReason) {
  const ScratchFolder folder;
  const auto reason = [&](const std::string& bytes) {
    const std::string path = folder.write("tokens.bin", bytes);
    return error_of<DataError>([&] { read_token_file(path, 100); });
  };
  EXPECT_THAT(reason(""), HasSubstr("empty"));
  EXPECT_THAT(reason("abc"), HasSubstr("odd"));
  EXPECT_THAT(reason(as_bytes({1, 100})), HasSubstr("token 100 at index 1"));
  std::vector<std::uint32_t> header(256);
  header[0] = 20240520;
  header[1] = 2;
  std::string bytes(1024, '\0');
  std::memcpy(bytes.data(), header.data(), 1024);
  EXPECT_THAT(reason(bytes), HasSubstr("version 2"));
  header[1] = 1;
  header[2] = 5;
  std::memcpy(bytes.data(), header.data(), 1024);
  EXPECT_THAT(reason(bytes + as_bytes({1, 2})), HasSubstr("declares 5 tokens"));
}

}  // namespace
}  // namespace binade::io
