#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "binade/core/error.h"
#include "binade/io/files/read_file.h"
#include "binade/io/text/bpe_vocabulary.h"
#include "binade/io/text/pretokenize.h"
#include "binade/io/text/tokenizer.h"
#include "binade/io/text/unicode_classes.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string golden(const std::string& name) {
  const char* folder = std::getenv("BINADE_GOLDEN_DIR");
  return (folder != nullptr ? std::string(folder) : "tests/golden/data") + "/" + name;
}

/// Writes a small vocabulary as vocab.json and merges.txt.
void write_small(const ScratchFolder& folder, const std::string& merges = "#version: 0.2\na b\nab c\n") {
  folder.write("vocab.json", R"({"a":0,"b":1,"c":2,"ab":3,"abc":4,"\u0120":5,"<|endoftext|>":6})");
  folder.write("merges.txt", merges);
}

TEST(UnicodeClasses, CoverEveryScript) {
  for (const char32_t c : {U'a', U'Z', U'\u00e9', U'\u0431', U'\u05d0', U'\u4e2d', U'\U0001D54F', U'\u00aa', U'\u02b0'})
    EXPECT_TRUE(is_letter(c));
  for (const char32_t c : {U'_', U'1', U' ', U'\u0301', U'\U0001F600', U'@', U'[', U'`', U'{', U'\u00d7'})
    EXPECT_FALSE(is_letter(c));
  for (const char32_t c : {U'0', U'9', U'\u00bd', U'\u0663', U'\u2167', U'\u00b2'}) EXPECT_TRUE(is_number(c));
  for (const char32_t c : {U'/', U':', U'a', U'\u4e00'}) EXPECT_FALSE(is_number(c));
  for (const char32_t c : {U' ', U'\n', U'\u00a0', U'\u3000', U'\u0085'}) EXPECT_TRUE(is_space(c));
  for (const char32_t c : {U'\u200b', U'\ufeff', U'\x1c', U'a'}) EXPECT_FALSE(is_space(c));
}

TEST(Pretokenize, SplitsAsHuggingFaceDoes) {
  for (const json& expected : json::parse(read_file(golden("bpe_encoded.json")))) {
    const std::string text = expected["text"];
    std::vector<std::size_t> lengths;
    for (const auto piece : pretokenize_gpt2(text)) lengths.push_back(piece.size());
    EXPECT_EQ(lengths, expected["pieces"].get<std::vector<std::size_t>>()) << expected["text"].dump();
  }
}

TEST(Pretokenize, PiecesJoinToTheTextWhateverItsBytes) {
  std::string text;
  for (int i = 0; i < 4000; ++i) text.push_back(static_cast<char>((i * 167 + i / 7 * 31) & 0xFF));
  std::string joined;
  for (const auto piece : pretokenize_gpt2(text)) {
    EXPECT_FALSE(piece.empty());
    joined += piece;
  }
  EXPECT_EQ(joined, text);
}

TEST(BpeTokenizer, EncodesAsHuggingFaceDoes) {
  const auto tokenizer = make_tokenizer("bpe:" + golden("bpe_tokenizer.json"), "");
  EXPECT_EQ(tokenizer->kind(), "bpe");
  for (const json& expected : json::parse(read_file(golden("bpe_encoded.json")))) {
    const std::string text = expected["text"];
    const auto tokens = tokenizer->encode(text);
    EXPECT_EQ(tokens, expected["tokens"].get<std::vector<std::int32_t>>()) << expected["text"].dump();
    EXPECT_EQ(tokenizer->decode(tokens), text);
  }
}

TEST(BpeTokenizer, BytesThatAreNotUtf8RoundTrip) {
  const auto tokenizer = make_tokenizer("bpe:" + golden("bpe_tokenizer.json"), "");
  const std::string bytes = "ok \xFF\xFE\x80 then \xE2\x82";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(bytes)), bytes);
}

TEST(BpeTokenizer, IsRestoredFromACheckpoint) {
  const auto tokenizer = make_tokenizer("bpe:" + golden("bpe_tokenizer.json"), "");
  const auto restored = restore_tokenizer(tokenizer_state(*tokenizer));
  EXPECT_EQ(restored->vocabulary_size(), tokenizer->vocabulary_size());
  EXPECT_EQ(restored->encode("the same tokens<|endoftext|>"), tokenizer->encode("the same tokens<|endoftext|>"));
}

TEST(BpeTokenizer, ReadsVocabAndMergesFiles) {
  const ScratchFolder folder;
  write_small(folder);
  for (const std::string& path : {folder.path(), folder.path("vocab.json")}) {
    const auto tokenizer = make_bpe_tokenizer(read_bpe_vocabulary(path));
    EXPECT_EQ(tokenizer->vocabulary_size(), 7);
    EXPECT_THAT(tokenizer->encode("abcab a<|endoftext|>b"), ElementsAre(4, 3, 5, 0, 6, 1));
  }
}

TEST(BpeTokenizer, AByteWithoutATokenIsAnArgumentErrorInAPromptAndADataErrorInData) {
  const ScratchFolder folder;
  write_small(folder);
  const auto tokenizer = make_bpe_tokenizer(read_bpe_vocabulary(folder.path()));
  EXPECT_THAT(error_of<DataError>([&] { tokenizer->encode("abc abx"); }), HasSubstr("offset 6"));
  EXPECT_THAT(error_of<ArgumentError>([&] { tokenizer->encode("<|endoftext|>x", TextOrigin::kPrompt); }),
              HasSubstr("offset 13"));
  EXPECT_THROW(tokenizer->decode(std::vector<std::int32_t>{7}), ArgumentError);
}

TEST(BpeTokenizer, ALongPieceIsMergedInTheOrderOfTheMergeTable) {
  // One piece of 2^16 letters, for which a quadratic algorithm would take minutes under a sanitizer.
  const ScratchFolder folder;
  folder.write("vocab.json", R"({"a":0,"aa":1,"aaaa":2,"b":3,"ab":4})");
  folder.write("merges.txt", "a a\naa aa\na b\n");
  const auto tokenizer = make_bpe_tokenizer(read_bpe_vocabulary(folder.path()));
  const auto tokens = tokenizer->encode(std::string(65535, 'a') + "b");
  ASSERT_EQ(tokens.size(), 65535u / 4 + 2);
  EXPECT_EQ(tokens.front(), 2);
  EXPECT_EQ(tokens[tokens.size() - 2], 1);  // 65535 = 4 * 16383 + 3: of the last three, aa is merged before ab
  EXPECT_EQ(tokens.back(), 4);
}

TEST(BpeVocabulary, OtherTokenizerFilesAreADataErrorThatNamesTheFile) {
  const ScratchFolder folder;
  const auto reason = [&](const std::string& text) {
    const std::string path = folder.write("tokenizer.json", text);
    return error_of<DataError>([&] { read_bpe_vocabulary(path); });
  };
  EXPECT_THAT(reason("{"), HasSubstr("tokenizer.json"));
  EXPECT_THAT(reason(R"({"model":{"type":"Unigram"}})"), HasSubstr("wanted a BPE model"));
  EXPECT_THAT(reason(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})"), HasSubstr("ByteLevel"));
  const std::string head = R"({"pre_tokenizer":{"type":"ByteLevel"},"model":{"type":"BPE",)";
  EXPECT_THAT(reason(head + R"("vocab":{"a":0,"b":0},"merges":[]}})"), HasSubstr("two tokens have the number 0"));
  EXPECT_THAT(reason(head + R"("vocab":{"a":-1},"merges":[]}})"), HasSubstr("-1"));
  EXPECT_THAT(reason(head + R"("vocab":{"a":9000},"merges":[]}})"), HasSubstr("9000"));
  EXPECT_THAT(reason(head + R"("vocab":{"\u4e00":0},"merges":[]}})"), HasSubstr("alphabet"));
  EXPECT_THAT(reason(head + R"("vocab":{"a":0},"merges":["a"]}})"), HasSubstr("merges of two tokens"));
  EXPECT_THAT(reason(head + R"("vocab":{"a":0},"merges":[["a",1]]}})"), HasSubstr("merges of two tokens"));
  EXPECT_THAT(reason(head + R"("vocab":7,"merges":[]}})"), HasSubstr("vocab"));
  EXPECT_THAT(error_of<DataError>([&] { read_bpe_vocabulary(folder.path("none")); }), HasSubstr("none"));
  const ScratchFolder* small = &folder;
  write_small(*small, "a x\n");
  std::filesystem::remove(folder.path("tokenizer.json"));
  EXPECT_THROW(make_bpe_tokenizer(read_bpe_vocabulary(folder.path())), DataError);
}

}  // namespace
}  // namespace binade::io
