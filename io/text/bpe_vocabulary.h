#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace binade::io {

/// A byte-level BPE vocabulary, with tokens as plain bytes.
struct BpeVocabulary {
  std::vector<std::pair<std::string, std::int32_t>> tokens{};  ///< bytes and number, ascending by number
  std::vector<std::pair<std::string, std::string>> merges{};   ///< bytes of the two parts, in order of priority
  std::vector<std::pair<std::string, std::int32_t>> added{};   ///< special tokens, recognized verbatim in text
};

/// Parses the canonical JSON text that read_bpe_vocabulary() returns: {"added": {text: number}, "merges": ["a b", …],
/// "vocab": {token: number}}, tokens written in GPT-2's printable alphabet for bytes. Throws DataError.
BpeVocabulary parse_bpe_vocabulary(const std::string& canonical);

/// Reads a tokenizer.json, a vocab.json with merges.txt next to it, or a folder with either, and returns the canonical
/// text. Throws DataError that names the file.
std::string read_bpe_vocabulary(const std::string& path);
/// Return the canonical text for the contents of a tokenizer.json, or of a vocab.json and its merges.txt. Error texts
/// begin with `name`.
std::string bpe_from_tokenizer_json(const std::string& text, const std::string& name);
std::string bpe_from_vocab_and_merges(const std::string& vocab, const std::string& merges, const std::string& name);

}  // namespace binade::io
