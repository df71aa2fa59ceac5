#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/io/data/loader.h"
#include "binade/io/text/tokenizer.h"

namespace binade::io {

/// Text read from one file or from all files of a folder, one after the other in ascending order of name, bytes
/// unchanged and nothing put between them.
struct Text {
  struct File {
    std::string name{};
    std::size_t begin = 0;  ///< offset of its first byte in `bytes`
  };
  std::string path{};  ///< as it was given
  std::string bytes{};
  std::vector<File> files{};
  std::string
      content{};  ///< SHA-256 in hex over names (of a folder's files), lengths and bytes: what a resume compares
};

/// Throws DataError, naming the file and the offset in it, unless all of the text is UTF-8: what the char tokenizer
/// wants.
void check_utf8(const Text& text);

/// Reads the text at `path`. Throws DataError, naming the file, when it is missing, unreadable, empty or binary (a NUL
/// byte, or more than 30 % control characters).
Text read_text(const std::string& path);

/// The text that needs no download: the licence texts of every Debian and Ubuntu system (/usr/share/common-licenses),
/// each once. Throws DataError naming --data when the folder is not there.
Text embedded_text();

/// Tokens in memory, two bytes each where the vocabulary allows it. A value: views of one run share storage.
class TokenSequence {
 public:
  TokenSequence() = default;
  /// `vocabulary` bounds the values: throws DataError for one outside 0 … vocabulary - 1.
  TokenSequence(const std::vector<std::int32_t>& tokens, std::int64_t vocabulary);

  std::int64_t size() const { return count_; }
  std::int64_t vocabulary() const { return vocabulary_; }
  std::int32_t operator[](std::int64_t i) const;
  /// Tokens [begin, begin + count), no copy. Throws ArgumentError outside the sequence.
  TokenSequence part(std::int64_t begin, std::int64_t count) const;

 private:
  friend TokenSequence decode_token_file(const std::string& bytes, const std::string& name, std::int64_t vocabulary);
  std::shared_ptr<const std::vector<std::uint16_t>> narrow_;
  std::shared_ptr<const std::vector<std::int32_t>> wide_;
  std::int64_t begin_ = 0;
  std::int64_t count_ = 0;
  std::int64_t vocabulary_ = 0;
};

/// Token files: nanoGPT's (bare little-endian uint16), llm.c's GPT-2 ones (1024-byte header: magic 20240520, version 1,
/// token count; then uint16), and .npy arrays of whole numbers in one dimension (io/data/npy.h). Throws DataError for a
/// missing, empty, odd-sized or truncated file, another version, and a token outside 0 … `vocabulary` - 1 (named with
/// its index).
TokenSequence read_token_file(const std::string& path, std::int64_t vocabulary);
/// The same for a file's bytes; errors begin with `name`.
TokenSequence decode_token_file(const std::string& bytes, const std::string& name, std::int64_t vocabulary);

/// Training part and the held-out end.
struct TextSplit {
  TokenSequence train{};
  TokenSequence validation{};
};

/// Holds out the last floor(fraction * size) tokens, at least 1. Throws ArgumentError unless 0 < fraction < 1,
/// DataError when nothing would be left to train on.
TextSplit split_text(const TokenSequence& tokens, double fraction);

/// A target that no loss counts (the padding of a short last window).
inline constexpr std::int32_t kIgnoredTarget = -100;

/// B windows of T tokens and, for each token, the one that follows it.
struct TextBatch {
  Tensor tokens{};   ///< (B, T) i32
  Tensor targets{};  ///< (B, T) i32; kIgnoredTarget where there is no next token
  BatchOrigin origin{};

  std::int64_t size() const { return tokens.dim(0); }
  TextBatch rows(std::int64_t begin, std::int64_t count) const;
  TextBatch to(Device device) const;
  TextBatch without(std::span<const std::int64_t> rows) const;  ///< `rows` ascending
  /// Everything in it, and back: for a capsule. Throws CheckpointError.
  StateDict state() const;
  static TextBatch from_state(const StateDict& state);
};

struct TextLoaderOptions {
  std::int64_t context = 64;  ///< T
  std::int64_t batch = 12;    ///< B
  std::uint64_t seed = 0;
  bool shuffled_windows = false;  ///< training on non-overlapping windows, each once per epoch, not on random offsets
  int prefetch = 2;               ///< batches made ahead by the worker thread; 0: made when asked for
};

/// Training batches. By default every window begins at a random offset in [0, size - T), as nanoGPT draws them; an
/// "epoch" is then size / T windows. Throws DataError when the text has fewer than T + 1 tokens.
Loader<TextBatch> training_batches(const TokenSequence& tokens, const TextLoaderOptions& options);

/// Every token of `tokens` but the first is a target exactly once: windows of T that do not overlap, in order, the last
/// one padded with token 0 and kIgnoredTarget; the last batch is smaller. Throws DataError for fewer than 2 tokens.
Loader<TextBatch> evaluation_batches(const TokenSequence& tokens, const TextLoaderOptions& options);

}  // namespace binade::io
