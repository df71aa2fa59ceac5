#include "binade/io/text/bpe_vocabulary.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "binade/core/error.h"
#include "binade/io/files/read_file.h"
#include "binade/io/text/json_reader.h"
#include "binade/io/text/utf8.h"

namespace binade::io {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

/// Returns GPT-2's printable alphabet, in which each of the 256 bytes is written as one character, as a map from
/// characters to bytes. Printable Latin-1 bytes are written as themselves, the others as U+0100, U+0101, ….
std::map<char32_t, unsigned char> byte_alphabet() {
  std::map<char32_t, unsigned char> alphabet;
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    alphabet[printable ? byte : next++] = static_cast<unsigned char>(byte);
  }
  return alphabet;
}

/// Converts a token in GPT-2's printable alphabet to bytes; returns false if a character is outside the alphabet.
bool to_bytes(const std::string& token, std::string& bytes) {
  static const std::map<char32_t, unsigned char> kAlphabet = byte_alphabet();
  bytes.clear();
  for (std::size_t at = 0; at < token.size();) {
    const CodePoint point = decode_utf8(token, at);
    const auto found = point.valid ? kAlphabet.find(point.value) : kAlphabet.end();
    if (found == kAlphabet.end()) return false;
    bytes.push_back(static_cast<char>(found->second));
    at = point.end;
  }
  return !bytes.empty();
}

/// Returns member `key` of a JSON object, or JSON null if there is none.
const json& member(const json& object, const char* key) {
  static const json kNull;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNull;
}

std::int32_t number_of(const json& value, const std::string& name) {
  check<DataError>(value.is_number_integer() && value >= 0 && value < (1 << 24),
                   "{}: wanted a token number below 2^24, got {}", name, value.dump());
  return value.get<std::int32_t>();
}

json merge_texts(const json& merges, const std::string& name) {
  check<DataError>(merges.is_array(), "{}: wanted a list \"merges\" of a byte-level BPE model", name);
  json texts = json::array();
  for (const json& merge : merges) {
    const bool pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    check<DataError>(pair || merge.is_string(), "{}: wanted merges of two tokens, got {}", name, merge.dump());
    texts.push_back(pair ? merge[0].get<std::string>() + " " + merge[1].get<std::string>() : merge.get<std::string>());
  }
  return texts;
}

/// Converts a tokenizer.json of Hugging Face's tokenizers. Refuses options that would split text differently from
/// GPT-2.
json from_tokenizer_json(const json& file, const std::string& name) {
  const json& model = member(file, "model");
  const json& type = member(model, "type");
  check<DataError>(type.is_null() || type == "BPE", "{}: wanted a BPE model, got {}", name, type.dump());
  const json& pre_tokenizer = member(file, "pre_tokenizer");
  check<DataError>(member(pre_tokenizer, "type") == "ByteLevel" && member(pre_tokenizer, "add_prefix_space") != true &&
                       member(pre_tokenizer, "use_regex") != false,
                   "{}: wanted GPT-2's pre-tokenizer (ByteLevel with its pattern and no prefix space), got {}", name,
                   pre_tokenizer.dump());
  check<DataError>(member(file, "normalizer").is_null(), "{}: wanted no normalizer, got {}", name,
                   member(file, "normalizer").dump());
  for (const char* option : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    const json& value = member(model, option);
    check<DataError>(value.is_null() || value == "", "{}: wanted no \"{}\", got {}", name, option, value.dump());
  }
  for (const char* option : {"byte_fallback", "ignore_merges"})
    check<DataError>(member(model, option) != true, "{}: a model with \"{}\" is not GPT-2's kind of BPE", name, option);

  json canonical{{"vocab", member(model, "vocab")},
                 {"merges", merge_texts(member(model, "merges"), name)},
                 {"added", json::object()}};
  const json& added = member(file, "added_tokens");
  check<DataError>(added.is_null() || added.is_array(), "{}: wanted a list \"added_tokens\"", name);
  for (const json& token : added) {
    const json& content = member(token, "content");
    check<DataError>(content.is_string() && content != "", "{}: wanted added tokens with \"content\", got {}", name,
                     token.dump());
    for (const char* option : {"lstrip", "rstrip", "single_word"})
      check<DataError>(member(token, option) != true, "{}: the added token {} has \"{}\", which GPT-2's have not", name,
                       content.dump(), option);
    canonical["added"][content.get<std::string>()] = number_of(member(token, "id"), name);
  }
  return canonical;
}

json from_vocab_and_merges(json vocab, const std::string& merges) {
  json canonical{{"vocab", std::move(vocab)}, {"merges", json::array()}, {"added", json::object()}};
  for (std::size_t at = 0; at < merges.size();) {
    const std::size_t end = std::min(merges.find('\n', at), merges.size());
    std::string line = merges.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !(at == 0 && line.starts_with("#version"))) canonical["merges"].push_back(line);
    at = end + 1;
  }
  const json& end_of_text = member(canonical["vocab"], "<|endoftext|>");
  if (!end_of_text.is_null()) canonical["added"]["<|endoftext|>"] = end_of_text;
  return canonical;
}

/// Returns the canonical vocabulary as text, after checking that parse_bpe_vocabulary() accepts it.
std::string validated(const json& canonical, const std::string& name) {
  std::string text = canonical.dump();
  try {
    (void)parse_bpe_vocabulary(text);
  } catch (const DataError& reason) {
    throw DataError(fmt::format("{}: {}", name, reason.what()));
  }
  return text;
}

}  // namespace

BpeVocabulary parse_bpe_vocabulary(const std::string& text) {
  const std::string name = "BPE vocabulary";
  const json canonical = parse_json<json>(text, name);
  const json& vocab = member(canonical, "vocab");
  const json& added = member(canonical, "added");
  check<DataError>(vocab.is_object() && !vocab.empty() && added.is_object(),
                   "{}: wanted a \"vocab\" of tokens and their numbers", name);

  BpeVocabulary result;
  std::set<std::int32_t> used_numbers;
  for (const auto& [token, number] : added.items()) {
    // An empty token would match at every position of a text.
    check<DataError>(!token.empty(), "{}: an added token without text", name);
    result.added.emplace_back(token, number_of(number, name));
  }
  for (const auto& [token, number] : vocab.items()) {
    std::string bytes;
    if (added.contains(token)) {
      check<DataError>(number == added[token], "{}: {} has two numbers", name, json(token).dump());
      continue;
    }
    check<DataError>(to_bytes(token, bytes), "{}: the token {} is not in the alphabet of byte-level BPE", name,
                     json(token).dump());
    result.tokens.emplace_back(bytes, number_of(number, name));
  }
  for (const auto* list : {&result.tokens, &result.added})
    for (const auto& [bytes, number] : *list) {
      check<DataError>(used_numbers.insert(number).second, "{}: two tokens have the number {}", name, number);
      // The largest number determines the size of the embedding: some numbers may be unused, but not most.
      check<DataError>(static_cast<std::size_t>(number) < 4 * (vocab.size() + added.size()) + 1024,
                       "{}: number {} in a vocabulary of {} tokens", name, number, vocab.size());
    }
  std::sort(result.tokens.begin(), result.tokens.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });

  for (const json& merge : merge_texts(member(canonical, "merges"), name)) {
    const std::string line = merge.get<std::string>();
    const std::size_t blank = line.find(' ');
    std::string left;
    std::string right;
    check<DataError>(blank != std::string::npos && line.find(' ', blank + 1) == std::string::npos &&
                         to_bytes(line.substr(0, blank), left) && to_bytes(line.substr(blank + 1), right),
                     "{}: wanted merges of two tokens with a blank between, got {}", name, merge.dump());
    result.merges.emplace_back(left, right);
  }
  return result;
}

std::string bpe_from_tokenizer_json(const std::string& text, const std::string& name) {
  return validated(from_tokenizer_json(parse_json<json>(text, name), name), name);
}

std::string bpe_from_vocab_and_merges(const std::string& vocab, const std::string& merges, const std::string& name) {
  check<DataError>(find_bad_utf8(merges) == std::string::npos, "{}: wanted merges in UTF-8", name);
  return validated(from_vocab_and_merges(parse_json<json>(vocab, name), merges), name);
}

std::string read_bpe_vocabulary(const std::string& path) {
  std::error_code error;
  check<DataError>(fs::exists(path, error),
                   "{}: there is no such file or folder; wanted a tokenizer.json, or vocab.json and merges.txt", path);
  const bool is_folder = fs::is_directory(path, error);
  const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  const std::string file =
      is_folder ? (folder / (fs::exists(folder / "tokenizer.json", error) ? "tokenizer.json" : "vocab.json")).string()
                : path;
  const std::string text = read_file(file, JsonLimits().bytes);
  const json parsed = parse_json<json>(text, file);
  if (parsed.contains("model")) return validated(from_tokenizer_json(parsed, file), file);
  return bpe_from_vocab_and_merges(text, read_file((folder / "merges.txt").string(), std::uint64_t{64} << 20), file);
}

}  // namespace binade::io
