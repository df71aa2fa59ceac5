#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/core/state_dict.h"

namespace binade::io {

/// Where a text comes from decides what a token outside the vocabulary is: a data error (exit 40), or, in a prompt that
/// the user typed, a bad argument (exit 20).
enum class TextOrigin { kData, kPrompt };

/// Text to token numbers 0 … vocabulary_size() - 1 and back. Immutable, so any number of threads may share one.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// "byte", "char" or "bpe".
  virtual std::string kind() const = 0;
  virtual std::int64_t vocabulary_size() const = 0;
  /// decode(encode(text)) == text. Throws DataError or ArgumentError (see TextOrigin) naming the byte offset of text
  /// that has no token.
  virtual std::vector<std::int32_t> encode(std::string_view text, TextOrigin origin = TextOrigin::kData) const = 0;
  /// The bytes of the tokens; a cut through a multi-byte character gives bytes that are not UTF-8. Throws ArgumentError
  /// for a number outside the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  /// Everything that restore_tokenizer() needs beside kind(): empty for "byte", the characters in UTF-8 for "char", the
  /// vocabulary file's content for "bpe".
  virtual std::string vocabulary() const = 0;
};

/// Token = byte, vocabulary 256. Encodes anything.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// Token = Unicode code point. The vocabulary is the set of code points of `text` in ascending order. Throws DataError
/// with the byte offset where `text` is not UTF-8, and for an empty text.
std::unique_ptr<Tokenizer> make_char_tokenizer(std::string_view text);

/// What `--tokenizer` takes: "byte", "char" (vocabulary from `text`) or "bpe:PATH" (see io/text/bpe.h). Throws
/// ArgumentError for another word.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view name, std::string_view text);

/// The tokenizer with the given kind() and vocabulary(). Throws CheckpointError when they make none.
std::unique_ptr<Tokenizer> restore_tokenizer(const std::string& kind, const std::string& vocabulary);

/// The same through a checkpoint: entries "kind" (text) and "vocabulary" (u8 tensor).
StateDict tokenizer_state(const Tokenizer& tokenizer);
std::unique_ptr<Tokenizer> restore_tokenizer(const StateDict& state);

}  // namespace binade::io
