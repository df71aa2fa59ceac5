#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace binade::amp {

/// Appends a line to a text. Checkpoints store a list of names as one text with a line for each.
inline void add_line(std::string& text, std::string_view line) { text.append(line).append("\n"); }

/// Returns "'matmul' in blocks.0", or "'matmul'" at the root.
inline std::string quoted_op(std::string_view op, std::string_view module) {
  return fmt::format("'{}'{}{}", op, module.empty() ? "" : " in ", module);
}

/// Returns the name of the op for overrides: "blocks.0/matmul", or "matmul" at the root.
inline std::string override_target(std::string_view op, std::string_view module) {
  return fmt::format("{}{}{}", module, module.empty() ? "" : "/", op);
}

/// Removes the slash of a target with an empty module path: "/matmul" becomes "matmul", as override_target() writes it.
inline std::string without_root(std::string_view target) {
  return std::string(target.starts_with('/') ? target.substr(1) : target);
}

/// Returns a short list of the names: "a, b, c and 4 more".
inline std::string abbreviated(const std::vector<std::string>& names) {
  const std::size_t shown = std::min<std::size_t>(names.size(), 3);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) text += (i > 0 ? ", " : "") + names[i];
  return names.size() > shown ? fmt::format("{} and {} more", text, names.size() - shown) : text;
}

/// Returns the module of a parameter: "blocks.2.mlp.up" for "blocks.2.mlp.up.weight"; empty at the root.
inline std::string module_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return std::string(dot == path.npos ? "" : path.substr(0, dot));
}

/// Splits a text into its lines.
inline std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace binade::amp
