#include "binade/io/text/tokenizer.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "binade/core/error.h"
#include "binade/core/program_flags.h"
#include "binade/io/text/bpe_vocabulary.h"
#include "binade/io/text/utf8.h"

namespace binade::io {
namespace {

void check_token(std::int32_t token, std::int64_t size) {
  check<ArgumentError>(token >= 0 && token < size, "tokenizer: wanted tokens 0 to {}, got {}", size - 1, token);
}

class ByteTokenizer : public Tokenizer {
 public:
  std::string kind() const override { return "byte"; }
  std::int64_t vocabulary_size() const override { return 256; }
  std::string vocabulary() const override { return {}; }

  std::vector<std::int32_t> encode(std::string_view text, TextOrigin) const override {
    std::vector<std::int32_t> tokens(text.size());
    std::transform(text.begin(), text.end(), tokens.begin(), [](char c) { return static_cast<unsigned char>(c); });
    return tokens;
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::string text;
    text.reserve(tokens.size());
    for (const std::int32_t token : tokens) {
      check_token(token, 256);
      text.push_back(static_cast<char>(token));
    }
    return text;
  }
};

std::string not_utf8_text(std::string_view text, std::size_t at) {
  return fmt::format("char tokenizer: wanted UTF-8, got byte 0x{:02x} at offset {}; convert the text or use {}",
                     static_cast<unsigned char>(text[at]), at,
                     flag_or("tokenizer", "byte", "io::make_byte_tokenizer()"));
}

class CharTokenizer : public Tokenizer {
 public:
  /// `characters` must be ascending, without repeats.
  explicit CharTokenizer(std::vector<char32_t> characters) : characters_(std::move(characters)) {}

  std::string kind() const override { return "char"; }
  std::int64_t vocabulary_size() const override { return static_cast<std::int64_t>(characters_.size()); }

  std::string vocabulary() const override {
    std::string text;
    for (const char32_t c : characters_) append_utf8(text, c);
    return text;
  }

  std::vector<std::int32_t> encode(std::string_view text, TextOrigin origin) const override {
    std::vector<std::int32_t> tokens;
    tokens.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
      const CodePoint point = decode_utf8(text, at);
      if (!point.valid) throw_encoding_error(origin, not_utf8_text(text, at));
      const auto found = std::lower_bound(characters_.begin(), characters_.end(), point.value);
      if (found == characters_.end() || *found != point.value)
        throw_encoding_error(
            origin, fmt::format("char tokenizer: character '{}' (U+{:04X}) at byte offset {} is not in the "
                                "vocabulary of {} characters that the training text gave",
                                point.value < 0x20 ? std::string("?") : std::string(text.substr(at, point.end - at)),
                                static_cast<std::uint32_t>(point.value), at, characters_.size()));
      tokens.push_back(static_cast<std::int32_t>(found - characters_.begin()));
      at = point.end;
    }
    return tokens;
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) {
      check_token(token, vocabulary_size());
      append_utf8(text, characters_[static_cast<std::size_t>(token)]);
    }
    return text;
  }

 private:
  std::vector<char32_t> characters_;
};

}  // namespace

void throw_encoding_error(TextOrigin origin, const std::string& text) {
  if (origin == TextOrigin::kPrompt) throw ArgumentError(text);
  throw DataError(text);
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> make_char_tokenizer(std::string_view text) {
  check<DataError>(!text.empty(), "char tokenizer: wanted a text to take the vocabulary from, got an empty one");
  std::set<char32_t> characters;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (!point.valid) throw DataError(not_utf8_text(text, at));
    characters.insert(point.value);
    at = point.end;
  }
  return std::make_unique<CharTokenizer>(std::vector<char32_t>(characters.begin(), characters.end()));
}

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view name, std::string_view text) {
  if (name == "byte") return make_byte_tokenizer();
  if (name == "char") return make_char_tokenizer(text);
  if (name.starts_with("bpe:")) return make_bpe_tokenizer(read_bpe_vocabulary(std::string(name.substr(4))));
  throw ArgumentError(fmt::format("tokenizer: wanted byte, char or bpe:FILE, got '{}'", name));
}

std::unique_ptr<Tokenizer> restore_tokenizer(const std::string& kind, const std::string& vocabulary) {
  try {
    if (kind == "byte") return make_byte_tokenizer();
    if (kind == "char") return make_char_tokenizer(vocabulary);
    if (kind == "bpe") return make_bpe_tokenizer(vocabulary);
  } catch (const DataError& error) {
    throw CheckpointError(fmt::format("tokenizer in the checkpoint: {}", error.what()));
  }
  throw CheckpointError(fmt::format("tokenizer in the checkpoint: wanted byte, char or bpe, got '{}'", kind));
}

StateDict tokenizer_state(const Tokenizer& tokenizer) {
  const std::string vocabulary = tokenizer.vocabulary();
  const std::vector<std::uint8_t> bytes(vocabulary.begin(), vocabulary.end());
  StateDict state;
  state.put("kind", tokenizer.kind());
  state.put("vocabulary", Tensor::from(bytes, {static_cast<std::int64_t>(bytes.size())}));
  return state;
}

std::unique_ptr<Tokenizer> restore_tokenizer(const StateDict& state) {
  const Tensor& bytes = state.tensor("vocabulary");
  std::string vocabulary(bytes.bytes(), '\0');
  if (!vocabulary.empty()) std::memcpy(vocabulary.data(), bytes.data<std::uint8_t>(), vocabulary.size());
  return restore_tokenizer(state.text("kind"), vocabulary);
}

}  // namespace binade::io
