#include "binade/io/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "binade/core/error.h"
#include "binade/io/text/utf8.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Utf8, EveryScalarValueRoundTrips) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    const CodePoint point = decode_utf8(text, 0);
    ASSERT_TRUE(point.valid && point.value == c && point.end == text.size()) << static_cast<std::uint32_t>(c);
  }
}

TEST(Utf8, IllFormedSequencesAreReportedWithTheirOffset) {
  for (const std::string bad : {"\x80", "\xC0\xAF", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                                "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "\xC3"})
    EXPECT_EQ(find_bad_utf8("ab\u00e9" + bad), 4u) << ::testing::PrintToString(bad);
  EXPECT_EQ(find_bad_utf8("d\u00e9j\u00e0 \U0001F600"), std::string::npos);
}

TEST(ByteTokenizer, EveryByteRoundTrips) {
  std::string text(256, '\0');
  std::iota(text.begin(), text.end(), '\0');
  const auto tokenizer = make_byte_tokenizer();
  const auto tokens = tokenizer->encode(text);
  EXPECT_EQ(tokens[255], 255);
  EXPECT_EQ(tokenizer->decode(tokens), text);
  EXPECT_EQ(tokenizer->vocabulary_size(), 256);
}

TEST(CharTokenizer, TokensAreNumberedInOrderOfCodePoints) {
  const auto tokenizer = make_char_tokenizer("b\u00e9a\U0001F600b");
  EXPECT_EQ(tokenizer->vocabulary_size(), 4);
  EXPECT_THAT(tokenizer->encode("ab\u00e9\U0001F600"), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(tokenizer->decode(std::vector<std::int32_t>{3, 2, 1, 0}), "\U0001F600\u00e9ba");
}

TEST(CharTokenizer, BadUtf8IsADataErrorWithItsOffset) {
  EXPECT_THAT(error_of<DataError>([] { make_char_tokenizer("abc\xFFz"); }), HasSubstr("offset 3"));
  EXPECT_THAT(error_of<DataError>([] { make_char_tokenizer("abc")->encode("ab\xE2\x82"); }), HasSubstr("offset 2"));
}

TEST(CharTokenizer, AnUnknownCharacterIsAnArgumentErrorInAPromptAndADataErrorInData) {
  const auto tokenizer = make_char_tokenizer("abc");
  EXPECT_THAT(error_of<ArgumentError>([&] { tokenizer->encode("ab\u00e9", TextOrigin::kPrompt); }),
              HasSubstr("U+00E9"));
  EXPECT_THAT(error_of<DataError>([&] { tokenizer->encode("abx", TextOrigin::kData); }), HasSubstr("offset 2"));
}

TEST(Tokenizer, IsRestoredFromItsState) {
  const std::string text = "To be, or not to be \u2013 that's\n";
  for (const char* name : {"byte", "char"}) {
    const auto tokenizer = make_tokenizer(name, text);
    const auto restored = restore_tokenizer(tokenizer_state(*tokenizer));
    EXPECT_EQ(restored->kind(), name);
    EXPECT_EQ(restored->vocabulary_size(), tokenizer->vocabulary_size());
    EXPECT_EQ(restored->encode(text), tokenizer->encode(text));
  }
}

TEST(Tokenizer, UnknownNamesAndStatesAreRefused) {
  EXPECT_THAT(error_of<ArgumentError>([] { make_tokenizer("words", "x"); }), HasSubstr("byte, char or bpe:FILE"));
  EXPECT_THROW(restore_tokenizer("words", ""), CheckpointError);
  EXPECT_THROW(restore_tokenizer("char", "\xFF"), CheckpointError);
  EXPECT_THROW(make_byte_tokenizer()->decode(std::vector<std::int32_t>{256}), ArgumentError);
  EXPECT_THROW(make_char_tokenizer("ab")->decode(std::vector<std::int32_t>{-1}), ArgumentError);
}

}  // namespace
}  // namespace binade::io
