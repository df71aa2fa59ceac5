#pragma once

#include <cstddef>
#include <cstdint>
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

/// Appends `code_point` (a scalar value) in UTF-8.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace binade::io
