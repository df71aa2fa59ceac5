#pragma once

#include <string_view>
#include <vector>

namespace binade::io {

/// Cuts text as GPT-2's pattern does, so that no token reaches across a cut:
///
///     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// The pieces joined are the text. A byte that is not UTF-8 counts as a character of its own that is no letter, number
/// or space.
std::vector<std::string_view> pretokenize_gpt2(std::string_view text);

}  // namespace binade::io
