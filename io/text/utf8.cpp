#include "binade/io/text/utf8.h"

#include <algorithm>

namespace binade::io {

CodePoint decode_utf8(std::string_view text, std::size_t offset) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const CodePoint bad{0, offset + 1, false};
  const unsigned lead = byte(offset);
  if (lead < 0x80) return {lead, offset + 1, true};

  std::size_t length = 0;
  char32_t value = 0;
  unsigned second_low = 0x80;  // Unicode's table 3-7 narrows this range after some lead bytes
  unsigned second_high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    value = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    value = lead & 0x0F;
    if (lead == 0xE0) second_low = 0xA0;
    if (lead == 0xED) second_high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    value = lead & 0x07;
    if (lead == 0xF0) second_low = 0x90;
    if (lead == 0xF4) second_high = 0x8F;
  } else {
    return bad;
  }
  if (text.size() - offset < length) return bad;
  for (std::size_t i = 1; i < length; ++i) {
    const unsigned next = byte(offset + i);
    if (next < (i == 1 ? second_low : 0x80u) || next > (i == 1 ? second_high : 0xBFu)) return bad;
    value = (value << 6) | (next & 0x3F);
  }
  return {value, offset + length, true};
}

std::size_t find_bad_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const CodePoint point = decode_utf8(text, at);
    if (!point.valid) return at;
    at = point.end;
  }
  return std::string_view::npos;
}

std::size_t whole_utf8(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;  // a continuation byte; its character begins earlier
    const std::size_t wanted = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return back < wanted ? text.size() - back : text.size();
  }
  return text.size();
}

void append_utf8(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

}  // namespace binade::io
