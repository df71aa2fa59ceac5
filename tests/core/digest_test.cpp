#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "binade/core/crc32c.h"
#include "binade/core/error.h"
#include "binade/core/sha256.h"

namespace binade {
namespace {

std::span<const std::byte> bytes_of(const std::string& s) { return std::as_bytes(std::span(s)); }

TEST(Sha256, GivesTheStandardsKnownAnswers) {
  // FIPS 180-4 examples, and a million times 'a'.
  EXPECT_EQ(to_hex(sha256(bytes_of(""))), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256(bytes_of("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256(bytes_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(to_hex(sha256(bytes_of(std::string(1000000, 'a')))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, AStreamInPiecesGivesTheSameHashAndEndsOnce) {
  const std::string text = "a stream in pieces";
  Sha256 stream;
  for (const char c : text) stream.update(&c, 1);
  stream.update(nullptr, 0);
  EXPECT_EQ(stream.digest(), sha256(bytes_of(text)));
  EXPECT_THROW(stream.digest(), ArgumentError);
  EXPECT_THROW(stream.update("x", 1), ArgumentError);
}

TEST(Crc32c, GivesTheStandardsKnownAnswers) {
  // RFC 3720, B.4; and the check value of the catalogue of CRC algorithms.
  std::vector<std::byte> zeros(32, std::byte{0}), ones(32, std::byte{0xff}), up(32);
  for (std::size_t i = 0; i < up.size(); ++i) up[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(zeros), 0x8A9136AAu);
  EXPECT_EQ(crc32c(ones), 0x62A8AB43u);
  EXPECT_EQ(crc32c(up), 0x46DD794Eu);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(bytes_of("")), 0u);
}

TEST(Crc32c, TableAndInstructionAgreeAtEveryLengthAndOffset) {
  std::vector<std::byte> data(300);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>((i * i + 7 * i) >> 2);
  for (std::size_t offset = 0; offset < 9; ++offset)
    for (std::size_t length = 0; length + offset <= data.size(); length += 1 + length / 16) {
      const auto part = std::span<const std::byte>(data).subspan(offset, length);
      const std::uint32_t whole = crc32c(part);
      ASSERT_EQ(detail::crc32c_by_table(part, 0), whole) << offset << " " << length;
      ASSERT_EQ(crc32c(part.subspan(length / 3), crc32c(part.first(length / 3))), whole);
    }
}

TEST(Crc32c, DetectsEveryFlippedBit) {
  std::string text = "no bit of a checkpoint is unguarded";
  const std::uint32_t right = crc32c(bytes_of(text));
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_NE(crc32c(bytes_of(text)), right) << bit;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << (bit % 8)));
  }
}

}  // namespace
}  // namespace binade
