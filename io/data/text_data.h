#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "binade/io/data/loader.h"
#include "binade/io/text/tokenizer.h"

namespace binade::io {

/// Text of one file, or of all files of a folder, concatenated in ascending order of name.
struct Text {
  /// A file of the text, and its position in it.
  struct File {
    std::string name{};
    std::size_t begin = 0;  ///< offset of the file's first byte in `bytes`
  };
  std::string path{};  ///< the argument of read_text()
  std::string bytes{};
  std::vector<File> files{};
  /// SHA-256 in hex, which a resume compares: of a file's bytes, or of the names, lengths and bytes of a folder's
  /// files.
  std::string content{};
};

/// Throws DataError that names the file and the offset unless the text is UTF-8, as the char tokenizer requires.
void check_utf8(const Text& text);

/// Reads the text at `path`. Throws DataError that names the file if it is missing, unreadable, empty or binary (a NUL
/// byte, or more than 30 % control characters).
Text read_text(const std::string& path);

/// Returns a text that needs no download: the license texts of a Debian or Ubuntu system (/usr/share/common-licenses),
/// each once. Throws DataError that refers to --data if the folder does not exist.
Text embedded_text();

/// Tokens in memory, two bytes each if the vocabulary is small enough. Copies and parts share storage.
class TokenSequence {
 public:
  TokenSequence() = default;
  /// Throws DataError for a token outside 0 … vocabulary - 1.
  TokenSequence(const std::vector<std::int32_t>& tokens, std::int64_t vocabulary);

  std::int64_t size() const { return count_; }
  std::int64_t vocabulary() const { return vocabulary_; }
  std::int32_t operator[](std::int64_t i) const;
  /// Returns tokens [begin, begin + count) without a copy. Throws ArgumentError if they are outside the sequence.
  TokenSequence part(std::int64_t begin, std::int64_t count) const;

 private:
  friend TokenSequence decode_token_file(const std::string& bytes, const std::string& name, std::int64_t vocabulary);
  std::shared_ptr<const std::vector<std::uint16_t>> narrow_;  // tokens of a small vocabulary, otherwise null
  std::shared_ptr<const std::vector<std::int32_t>> wide_;     // tokens of a large vocabulary, otherwise null
  std::int64_t begin_ = 0;                                    // index of this part's first token in the storage
  std::int64_t count_ = 0;
  std::int64_t vocabulary_ = 0;
};

/// Reads a token file: nanoGPT's (bare little-endian uint16), llm.c's for GPT-2 (1024-byte header: magic 20240520,
/// version 1, token count; then uint16), or a .npy array of integers in one dimension (io/data/npy.h). Throws DataError
/// for a missing, empty, odd-sized or truncated file, another version, and a token outside 0 … `vocabulary` - 1.
TokenSequence read_token_file(const std::string& path, std::int64_t vocabulary);
/// Decodes the bytes of a token file; error texts begin with `name`.
TokenSequence decode_token_file(const std::string& bytes, const std::string& name, std::int64_t vocabulary);

/// A text split into the training part and the held-out end.
struct TextSplit {
  TokenSequence train{};
  TokenSequence validation{};
};

/// Splits a text: the last held_out_count() tokens are held out. Throws ArgumentError unless 0 < fraction < 1,
/// DataError if no token is left to train on.
TextSplit split_text(const TokenSequence& tokens, double fraction);

/// A target that losses ignore: the padding of a short last window.
inline constexpr std::int32_t kIgnoredTarget = -100;

/// B windows of T tokens, each with the next token as its target.
struct TextBatch {
  Tensor tokens{};   ///< (B, T) i32
  Tensor targets{};  ///< (B, T) i32; kIgnoredTarget if there is no next token
  BatchOrigin origin{};

  std::int64_t size() const { return tokens.dim(0); }
  TextBatch rows(std::int64_t begin, std::int64_t count) const {
    return {tokens.narrow(begin, count), targets.narrow(begin, count), origin.rows(begin, count)};
  }
  TextBatch to(Device device) const { return {tokens.to(device), targets.to(device), origin}; }
  /// Returns the batch without some rows; `rows` must be ascending.
  TextBatch without(std::span<const std::int64_t> rows) const;
  /// Returns the whole batch as a state, for a repro bundle.
  StateDict state() const;
  /// Returns the batch that state() stored. Throws CheckpointError.
  static TextBatch from_state(const StateDict& state);
};

/// Settings of training_batches() and evaluation_batches().
struct TextLoaderOptions {
  std::int64_t context = 64;  ///< T, the number of tokens per window
  std::int64_t batch = 12;    ///< B, the number of windows per batch
  std::uint64_t seed = 0;
  bool shuffled_windows = false;  ///< true: train on disjoint windows, each once per epoch; false: on random offsets
  int prefetch = 2;               ///< number of batches that a worker thread makes ahead; 0: next() makes each batch
};

/// Makes a loader of training batches. By default every window begins at a random offset in [0, size - T), as in
/// nanoGPT, and an "epoch" is size / T windows. Throws DataError if the text has fewer than T + 1 tokens.
Loader<TextBatch> training_batches(const TokenSequence& tokens, const TextLoaderOptions& options);

/// Makes a loader of evaluation batches, in which every token except the first is a target exactly once: disjoint
/// windows of T tokens in order, the last padded with token 0 and kIgnoredTarget; the last batch may be smaller. Throws
/// DataError for fewer than 2 tokens.
Loader<TextBatch> evaluation_batches(const TokenSequence& tokens, const TextLoaderOptions& options);

}  // namespace binade::io
