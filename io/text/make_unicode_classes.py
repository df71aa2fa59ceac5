"""Prints io/text/unicode_classes.cpp from the Unicode data of this Python: python3 make_unicode_classes.py > unicode_classes.cpp

The table in the repository is of Unicode 16.0.0 (Python 3.14), which is what Hugging Face's tokenizers and tiktoken use.
"""
import unicodedata


def ranges(kind):
    start = None
    for code in range(0x110001):
        inside = code < 0x110000 and unicodedata.category(chr(code))[0] == kind
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            yield start, code - 1
            start = None


def table(name, kind):
    entries = ["{0x%X, 0x%X}" % pair for pair in ranges(kind)]
    lines, line = [], "   "
    for entry in entries:
        if len(line) + len(entry) + 2 > 120:
            lines.append(line)
            line = "   "
        line += " " + entry + ","
    return "constexpr Range %s[] = {\n%s\n};" % (name, "\n".join(lines + [line]))


def main():
    print(f"""// Made by io/text/make_unicode_classes.py from Unicode {unicodedata.unidata_version}.
#include "binade/io/text/unicode_classes.h"

#include <algorithm>
#include <iterator>

namespace binade::io {{
namespace {{

struct Range {{
  char32_t first, last;
}};

// clang-format off
{table("kLetters", "L")}

{table("kNumbers", "N")}
// clang-format on

template <std::size_t n>
bool contains(const Range (&ranges)[n], char32_t c) {{
  const auto* after = std::upper_bound(std::begin(ranges), std::end(ranges), c, [](char32_t x, const Range& r) {{ return x < r.first; }});
  return after != std::begin(ranges) && c <= std::prev(after)->last;
}}

}}  // namespace

bool is_letter(char32_t c) {{ return c < 0x80 ? (c | 0x20) >= 'a' && (c | 0x20) <= 'z' : contains(kLetters, c); }}

bool is_number(char32_t c) {{ return c < 0x80 ? c >= '0' && c <= '9' : contains(kNumbers, c); }}

bool is_space(char32_t c) {{
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}}

}}  // namespace binade::io""")


if __name__ == "__main__":
    main()
