#pragma once

#include <string_view>
#include <vector>

namespace binade::io {

/// Splits text by GPT-2's pattern; no token spans two parts:
///
///     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// The parts together are the text. A byte that is not UTF-8 counts as a character that is not a letter, number or
/// space.
std::vector<std::string_view> pretokenize_gpt2(std::string_view text);

}  // namespace binade::io
