#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace binade::io {

/// A byte-level BPE vocabulary in plain bytes.
struct BpeVocabulary {
  std::vector<std::pair<std::string, std::int32_t>> tokens{};  ///< bytes and number, ascending by number
  std::vector<std::pair<std::string, std::string>> merges{};   ///< bytes of both sides, most wanted first
  std::vector<std::pair<std::string, std::int32_t>> added{};   ///< tokens that stand for themselves in text
};

/// Reads the canonical JSON text that read_bpe_vocabulary() makes: {"added": {text: number}, "merges": ["a b", …],
/// "vocab": {token: number}}, tokens written in GPT-2's printable alphabet for bytes. Throws DataError.
BpeVocabulary parse_bpe_vocabulary(const std::string& canonical);

/// Reads a tokenizer.json, a vocab.json beside its merges.txt, or a folder that holds one of both, as canonical text.
/// Throws DataError naming the file.
std::string read_bpe_vocabulary(const std::string& path);
/// The same for the text of a tokenizer.json, and for those of a vocab.json and its merges.txt; errors begin with
/// `name`.
std::string bpe_from_tokenizer_json(const std::string& text, const std::string& name);
std::string bpe_from_vocab_and_merges(const std::string& vocab, const std::string& merges, const std::string& name);

}  // namespace binade::io
