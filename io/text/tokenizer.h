#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/core/state_dict.h"

namespace binade::io {

/// The source of a text, which decides the error for text that has no token: DataError (exit 40) for data,
/// ArgumentError (exit 20) for a prompt that the user typed.
enum class TextOrigin { kData, kPrompt };
/// Throws the error for text of this origin that cannot be encoded, with the error text `text`.
[[noreturn]] void throw_encoding_error(TextOrigin origin, const std::string& text);

/// Converts text to token numbers 0 … vocabulary_size() - 1 and back. Immutable, so that threads may share it.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Returns "byte", "char" or "bpe".
  virtual std::string kind() const = 0;
  virtual std::int64_t vocabulary_size() const = 0;
  /// Returns the tokens of `text`; decode(encode(text)) == text. Throws DataError or ArgumentError (see TextOrigin)
  /// that names the byte offset of text that has no token.
  virtual std::vector<std::int32_t> encode(std::string_view text, TextOrigin origin = TextOrigin::kData) const = 0;
  /// Returns the bytes of the tokens, which may begin or end within a multi-byte character. Throws ArgumentError for a
  /// number outside the vocabulary.
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  /// Returns the argument for restore_tokenizer(): empty for "byte", the characters in UTF-8 for "char", the canonical
  /// vocabulary text for "bpe".
  virtual std::string vocabulary() const = 0;
};

/// Makes a tokenizer whose tokens are the 256 bytes; it encodes any text.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// Makes a tokenizer whose tokens are the Unicode code points that `text` contains, in ascending order. Throws
/// DataError if `text` is empty or not UTF-8, with the byte offset.
std::unique_ptr<Tokenizer> make_char_tokenizer(std::string_view text);

/// Makes GPT-2's tokenizer (Radford et al. 2019; byte-pair encoding after Sennrich et al. 2016). Added tokens such as
/// <|endoftext|> are recognized first, the longest first. The text between them is split by GPT-2's pattern
/// (io/text/pretokenize.h), and the bytes of each part are merged pair by pair in the order of the merge table.
///
/// `vocabulary` is the text that read_bpe_vocabulary() returns (io/text/bpe_vocabulary.h). Throws DataError if it is
/// not a byte-level BPE vocabulary.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(const std::string& vocabulary);

/// Makes the tokenizer that a value of `--tokenizer` names: "byte", "char" (vocabulary from `text`) or "bpe:PATH".
/// Throws ArgumentError for any other value.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view name, std::string_view text);

/// Makes the tokenizer with the given kind() and vocabulary(). Throws CheckpointError if they are invalid.
std::unique_ptr<Tokenizer> restore_tokenizer(const std::string& kind, const std::string& vocabulary);

/// Stores a tokenizer in a checkpoint and restores it: entries "kind" (text) and "vocabulary" (u8 tensor).
StateDict tokenizer_state(const Tokenizer& tokenizer);
std::unique_ptr<Tokenizer> restore_tokenizer(const StateDict& state);

}  // namespace binade::io
