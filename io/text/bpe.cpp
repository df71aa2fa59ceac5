#include <algorithm>
#include <array>
#include <queue>
#include <string_view>
#include <unordered_map>

#include "binade/core/error.h"
#include "binade/io/text/bpe_vocabulary.h"
#include "binade/io/text/pretokenize.h"
#include "binade/io/text/tokenizer.h"

namespace binade::io {
namespace {

/// The rank of a merge of two tokens, and the token that it gives.
struct Merge {
  std::int32_t rank;
  std::int32_t token;
};

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
}

class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(const std::string& vocabulary) : text_(vocabulary) {
    BpeVocabulary parsed = parse_bpe_vocabulary(vocabulary);
    std::unordered_map<std::string, std::int32_t> numbers;
    for (const auto* list : {&parsed.tokens, &parsed.added})
      for (const auto& [bytes, number] : *list) {
        if (static_cast<std::size_t>(number) >= bytes_.size()) bytes_.resize(static_cast<std::size_t>(number) + 1);
        bytes_[static_cast<std::size_t>(number)] = bytes;
        if (list == &parsed.tokens) numbers.emplace(bytes, number);
      }
    byte_tokens_.fill(-1);
    for (const auto& [bytes, number] : parsed.tokens)
      if (bytes.size() == 1) byte_tokens_[static_cast<unsigned char>(bytes[0])] = number;
    std::int32_t rank = 0;
    for (const auto& [left, right] : parsed.merges) {
      const auto token = numbers.find(left + right);
      check<DataError>(numbers.contains(left) && numbers.contains(right) && token != numbers.end(),
                       "BPE vocabulary: merge {} joins tokens that are not all in the vocabulary", rank);
      merges_.emplace(pair_key(numbers[left], numbers[right]), Merge{rank++, token->second});
    }
    added_ = std::move(parsed.added);
    std::sort(added_.begin(), added_.end(),
              [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  }

  std::string kind() const override { return "bpe"; }
  std::int64_t vocabulary_size() const override { return static_cast<std::int64_t>(bytes_.size()); }
  std::string vocabulary() const override { return text_; }

  std::vector<std::int32_t> encode(std::string_view text, TextOrigin origin) const override {
    std::vector<std::int32_t> tokens;
    Cache cache;
    std::size_t plain_begin = 0;
    for (std::size_t at = 0; at < text.size();) {
      const auto* added = added_at(text, at);
      if (added == nullptr) {
        at = next_candidate(text, at + 1);
        continue;
      }
      encode_plain(text.substr(plain_begin, at - plain_begin), plain_begin, origin, cache, tokens);
      tokens.push_back(added->second);
      plain_begin = at += added->first.size();
    }
    encode_plain(text.substr(plain_begin), plain_begin, origin, cache, tokens);
    return tokens;
  }

  std::string decode(std::span<const std::int32_t> tokens) const override {
    std::string text;
    for (const std::int32_t token : tokens) {
      check<ArgumentError>(token >= 0 && token < vocabulary_size() && !bytes_[static_cast<std::size_t>(token)].empty(),
                           "BPE tokenizer: wanted tokens of the vocabulary (0 to {}), got {}", vocabulary_size() - 1,
                           token);
      text += bytes_[static_cast<std::size_t>(token)];
    }
    return text;
  }

 private:
  using Cache = std::unordered_map<std::string_view, std::vector<std::int32_t>>;

  const std::pair<std::string, std::int32_t>* added_at(std::string_view text, std::size_t at) const {
    for (const auto& added : added_)
      if (text.substr(at).starts_with(added.first)) return &added;
    return nullptr;
  }

  /// Returns the next position at which an added token may begin.
  std::size_t next_candidate(std::string_view text, std::size_t at) const {
    std::size_t next = text.size();
    for (const auto& added : added_) next = std::min(next, text.substr(0, next).find(added.first[0], at));
    return std::min(next, text.size());
  }

  void encode_plain(std::string_view text, std::size_t offset, TextOrigin origin, Cache& cache,
                    std::vector<std::int32_t>& tokens) const {
    constexpr std::size_t kMaxCached = 1 << 20;
    for (const std::string_view word : pretokenize_gpt2(text)) {
      auto found = cache.find(word);
      if (found == cache.end()) {
        if (cache.size() >= kMaxCached) cache.clear();
        const auto word_offset = offset + static_cast<std::size_t>(word.data() - text.data());
        found = cache.emplace(word, merge_bytes(word, word_offset, origin)).first;
      }
      tokens.insert(tokens.end(), found->second.begin(), found->second.end());
    }
  }

  /// Merges the bytes of one word, always the adjacent pair of the lowest rank (the leftmost of equal ones). Uses a
  /// heap of candidates over a linked list, so that a word of n bytes takes O(n log n).
  std::vector<std::int32_t> merge_bytes(std::string_view word, std::size_t offset, TextOrigin origin) const {
    struct Part {
      std::int32_t token;
      std::int64_t previous, next;  // indices of the neighbors; -1: none. Token -1: merged into its left neighbor
    };
    struct Candidate {
      std::int32_t rank;
      std::int64_t left;
      std::int32_t left_token, right_token, merged;
      bool operator>(const Candidate& other) const {
        return rank != other.rank ? rank > other.rank : left > other.left;
      }
    };
    const auto count = static_cast<std::int64_t>(word.size());
    std::vector<Part> parts(word.size());
    for (std::int64_t i = 0; i < count; ++i) {
      const auto byte = static_cast<unsigned char>(word[static_cast<std::size_t>(i)]);
      if (byte_tokens_[byte] < 0)
        throw_encoding_error(origin,
                             fmt::format("BPE tokenizer: byte 0x{:02x} at offset {} has no token in the vocabulary",
                                         byte, offset + static_cast<std::size_t>(i)));
      parts[static_cast<std::size_t>(i)] = {byte_tokens_[byte], i - 1, i + 1 < count ? i + 1 : -1};
    }
    const auto part = [&](std::int64_t i) -> Part& { return parts[static_cast<std::size_t>(i)]; };

    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
    const auto consider = [&](std::int64_t left) {
      if (left < 0 || part(left).next < 0) return;
      const std::int32_t a = part(left).token;
      const std::int32_t b = part(part(left).next).token;
      if (const auto merge = merges_.find(pair_key(a, b)); merge != merges_.end())
        candidates.push({merge->second.rank, left, a, b, merge->second.token});
    };
    for (std::int64_t i = 0; i < count; ++i) consider(i);
    while (!candidates.empty()) {
      const Candidate best = candidates.top();
      candidates.pop();
      Part& left = part(best.left);
      const std::int64_t right = left.next;
      if (left.token != best.left_token || right < 0 || part(right).token != best.right_token)
        continue;  // the candidate is outdated, because one of its parts was merged
      left.token = best.merged;
      left.next = part(right).next;
      part(right).token = -1;
      if (left.next >= 0) part(left.next).previous = best.left;
      consider(left.previous);
      consider(best.left);
    }
    std::vector<std::int32_t> tokens;
    for (std::int64_t i = 0; i >= 0; i = part(i).next) tokens.push_back(part(i).token);
    return tokens;
  }

  std::string text_;
  std::vector<std::string> bytes_;  // bytes of each token by number; empty if the number is unused
  std::array<std::int32_t, 256> byte_tokens_{};
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::vector<std::pair<std::string, std::int32_t>> added_;  // added tokens and their numbers, longest first
};

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(const std::string& vocabulary) {
  return std::make_unique<BpeTokenizer>(vocabulary);
}

}  // namespace binade::io
