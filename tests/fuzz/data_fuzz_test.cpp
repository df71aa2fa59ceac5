// Hostile data files, made by seeded mutation: every reader answers with data or with a DataError, never with another
// end. The sanitizer builds run the same cases.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/error.h"
#include "core/random.h"
#include "io/bpe.h"
#include "io/bpe_vocabulary.h"
#include "io/idx.h"
#include "io/png.h"
#include "io/pretokenize.h"
#include "io/read_file.h"
#include "io/text_data.h"
#include "tests/io/png_bytes.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

/// Numbers in order from one seed.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : stream_{.seed = seed} {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(stream_.below(next_++, n)); }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

/// One to four edits: a byte changed, removed, doubled, or the rest cut off.
std::string mutate(std::string bytes, Draws& draws) {
  for (std::size_t edits = 1 + draws.below(4); edits > 0 && !bytes.empty(); --edits) {
    const std::size_t at = draws.below(bytes.size());
    switch (draws.below(8)) {
      case 0: bytes.erase(at, 1); break;
      case 1: bytes.insert(at, 1, bytes[at]); break;
      case 2: bytes.resize(at); break;
      default: bytes[at] = static_cast<char>(draws.below(256));
    }
  }
  return bytes;
}

template <class F>
bool accepted(F&& read) {
  try {
    read();
    return true;
  } catch (const DataError&) {
    return false;
  }
}

TEST(HostileData, PngWithRightChecksumsAndWrongContent) {
  // Checksums and the zlib frame are right, so that the mutations reach the decoder and not its first line of defense.
  Draws draws(11);
  int whole = 0;
  for (int i = 0; i < 4000; ++i) {
    constexpr int kDepths[] = {1, 2, 4, 8, 16};
    constexpr int kColors[] = {0, 2, 3, 4, 6};
    PngBytes png{.width = static_cast<std::uint32_t>(1 + draws.below(9)),
                 .height = static_cast<std::uint32_t>(1 + draws.below(9)),
                 .depth = kDepths[draws.below(5)],
                 .color = kColors[draws.below(5)],
                 .interlace = static_cast<int>(draws.below(2))};
    png.rows.resize(draws.below(3) == 0 ? draws.below(400) : png.height * (1 + png.width * 8));
    for (char& byte : png.rows) byte = static_cast<char>(draws.below(draws.below(4) == 0 ? 256 : 5));
    png.palette.resize(png.color == 3 || draws.below(8) == 0 ? 3 * draws.below(260) : 0);
    png.transparency.resize(draws.below(4) == 0 ? draws.below(260) : 0);
    const std::string file = png.file();
    whole += accepted([&] { decode_png(file, "a", {.palette_as_index = draws.below(2) == 0}); });
  }
  EXPECT_GT(whole, 100);
}

TEST(HostileData, PngWithFlippedBytes) {
  Draws draws(12);
  Image image{40, 30, 3, 8, {}};
  for (int i = 0; i < 3600; ++i) image.values.push_back(static_cast<std::uint16_t>(draws.below(256)));
  const std::string whole = encode_png(image);
  for (int i = 0; i < 4000; ++i) {
    const std::string file = mutate(whole, draws);
    accepted([&] { decode_png(file, "a"); });
  }
}

TEST(HostileData, TokenizerFiles) {
  const char* folder = std::getenv("BINADE_GOLDEN_DIR");
  const std::string golden = (folder != nullptr ? std::string(folder) : "tests/golden/data") + "/bpe_tokenizer.json";
  const std::string whole = read_file(golden);
  const ScratchFolder scratch;
  Draws draws(13);
  for (int i = 0; i < 300; ++i) {
    const std::string path = scratch.write("tokenizer.json", mutate(whole, draws));
    accepted([&] {
      const auto tokenizer = make_bpe_tokenizer(read_bpe_vocabulary(path));
      (void)tokenizer->decode(tokenizer->encode("a text<|endoftext|> that's used"));
    });
  }
}

TEST(HostileData, TokenAndIdxFiles) {
  const ScratchFolder scratch;
  Draws draws(14);
  std::string tokens(1024 + 20, '\0');
  tokens.replace(0, 12, std::string("\x88\xd8\x34\x01\1\0\0\0\x0a\0\0\0", 12));
  ASSERT_TRUE(accepted([&] { read_token_file(scratch.write("tokens.bin", tokens), 300); }));
  const std::string idx = std::string("\0\0\x08\3\0\0\0\2\0\0\0\2\0\0\0\2", 16) + "abcdefgh";
  for (int i = 0; i < 1000; ++i) {
    const std::string path = scratch.write("data.bin", mutate(i % 2 == 0 ? idx : tokens, draws));
    accepted([&] { i % 2 == 0 ? (void)read_idx(path) : (void)read_token_file(path, 300); });
  }
}

TEST(HostileData, AnyBytesAsText) {
  Draws draws(15);
  for (int i = 0; i < 2000; ++i) {
    std::string text(draws.below(60), '\0');
    for (char& byte : text) byte = static_cast<char>(draws.below(256));
    std::size_t length = 0;
    for (const auto piece : pretokenize_gpt2(text)) length += piece.size();
    EXPECT_EQ(length, text.size());
    accepted([&] { (void)make_char_tokenizer(text)->encode(text); });
  }
}

}  // namespace
}  // namespace binade::io
