#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace binade::amp {

/// Names, none with a line break in it, as one text of a state, a line each; and back.
inline void add_line(std::string& text, std::string_view name) { text.append(name).append("\n"); }

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace binade::amp
