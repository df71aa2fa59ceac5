#include "binade/io/text/unicode_classes.h"

#include <algorithm>
#include <iterator>

#include "io/unicode_ranges.h"

namespace binade::io {
namespace {

struct Range {
  char32_t first, last;
};
constexpr Range kLetters[] = {UNICODE_LETTERS};
constexpr Range kNumbers[] = {UNICODE_NUMBERS};

template <std::size_t n>
bool contains(const Range (&ranges)[n], char32_t c) {
  const auto* after = std::ranges::upper_bound(ranges, c, {}, &Range::first);
  return after != std::begin(ranges) && c <= std::prev(after)->last;
}

}  // namespace

bool is_letter(char32_t c) { return c < 0x80 ? (c | 0x20) >= 'a' && (c | 0x20) <= 'z' : contains(kLetters, c); }

bool is_number(char32_t c) { return c < 0x80 ? c >= '0' && c <= '9' : contains(kNumbers, c); }

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace binade::io
