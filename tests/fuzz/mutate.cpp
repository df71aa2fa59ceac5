#include <algorithm>
#include <cctype>
#include <cstring>

#include "tests/fuzz/draws.h"

namespace binade::fuzz {
namespace {

constexpr std::size_t kMostGrowth = 1 << 14;  // inputs stay small, so that there can be many

void write_edge(std::string& bytes, std::size_t at, Draws& draws) {
  const std::uint64_t value = draws.edge();
  constexpr std::size_t kSizes[] = {1, 2, 4, 8};
  const std::size_t size = std::min(draws.pick(kSizes), bytes.size() - at);
  char raw[8];
  std::memcpy(raw, &value, sizeof raw);
  if (draws.one_in(2)) std::reverse(raw, raw + size);
  bytes.replace(at, size, raw, size);
}

void edit(std::string& bytes, Draws& draws) {
  const std::size_t at = draws.below(bytes.size());
  const std::size_t count = std::min<std::size_t>(1 + draws.below(draws.one_in(4) ? 200 : 9), bytes.size() - at);
  switch (draws.below(10)) {
    case 0: bytes.erase(at, count); break;
    case 1: bytes.insert(at, bytes, at, count); break;
    case 2: bytes.resize(at); break;
    case 3: bytes.insert(at, count, static_cast<char>(draws.word())); break;
    case 4: bytes[at] = static_cast<char>(bytes[at] ^ (1 << draws.below(8))); break;
    case 5: write_edge(bytes, at, draws); break;
    case 6: bytes.replace(at, count, bytes, draws.below(bytes.size() - count + 1), count); break;
    case 7: bytes.replace(at, count, count, static_cast<char>(draws.one_in(2) ? 0 : 0xff)); break;
    default: bytes[at] = static_cast<char>(draws.word());
  }
  if (bytes.size() > kMostGrowth) bytes.resize(kMostGrowth);
}

std::string hostile_number(Draws& draws) {
  switch (draws.below(8)) {
    case 0: return "-" + std::to_string(draws.edge());
    case 1: return std::to_string(draws.edge()) + "." + std::to_string(draws.below(100));
    case 2: return "1e" + std::to_string(draws.below(400));
    case 3: return std::to_string(draws.edge()) + std::to_string(draws.edge());
    case 4: return std::to_string(draws.below(10));
    default: return std::to_string(draws.edge());
  }
}

/// Replaces the digits at or after `at` by another number.
void replace_number(std::string& text, std::size_t at, Draws& draws) {
  const auto digit = [&](std::size_t i) {
    return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]));
  };
  while (at < text.size() && !digit(at)) ++at;
  std::size_t end = at;
  while (digit(end)) ++end;
  while (at > 0 && digit(at - 1)) --at;
  text.replace(at, end - at, hostile_number(draws));
}

}  // namespace

std::string mutate(std::string bytes, Draws& draws) {
  for (std::size_t edits = 1 + draws.below(4); edits > 0 && !bytes.empty(); --edits) edit(bytes, draws);
  return bytes;
}

std::string mutate_text(std::string text, Draws& draws, const std::vector<std::string>& words) {
  for (std::size_t edits = 1 + draws.below(4); edits > 0 && !text.empty(); --edits) {
    const std::size_t at = draws.below(text.size());
    switch (draws.below(8)) {
      case 0: edit(text, draws); break;
      case 1:
      case 2: replace_number(text, at, draws); break;
      case 3:
        text.insert(at, std::string(1 + draws.below(draws.one_in(20) ? 3000 : 3), "[{\"'(\\"[draws.below(6)]));
        break;
      case 4: text.erase(at, 1 + draws.below(12)); break;
      default: {
        const std::string& word = draws.pick(words);
        text.replace(at, draws.one_in(2) ? 0 : std::min(word.size(), text.size() - at), word);
      }
    }
  }
  return text;
}

}  // namespace binade::fuzz
