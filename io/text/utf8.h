#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace binade::io {

/// A decoded code point and the offset after it.
struct CodePoint {
  char32_t value = 0;
  std::size_t end = 0;
  /// False if no well-formed sequence begins at the offset; `end` is then the offset + 1.
  bool valid = false;
};

/// Decodes the sequence at `offset` < text.size(). Well-formed means Unicode 15, table 3-7: no overlong forms, no
/// surrogates, nothing above U+10FFFF.
CodePoint decode_utf8(std::string_view text, std::size_t offset);

/// Returns the offset of the first byte that is not well-formed UTF-8, or npos.
std::size_t find_bad_utf8(std::string_view text);

/// Returns the length of `text` in bytes without an incomplete sequence at its end that more bytes could complete.
std::size_t whole_utf8(std::string_view text);

/// True for characters that only display themselves, newline and tab included. Other control characters (C0 and C1)
/// could control a terminal; directional overrides and isolates display text in another order than its bytes.
inline bool is_displayable(char32_t c) {
  return c == '\n' || c == '\t' || (c >= 0x20 && c < 0x7F) ||
         (c >= 0xA0 && !(c >= 0x202A && c <= 0x202E) && !(c >= 0x2066 && c <= 0x2069));
}

/// Appends `code_point` (a scalar value) in UTF-8.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace binade::io
