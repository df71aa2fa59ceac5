#pragma once

#include <string>
#include <vector>

namespace binade {

/// The word of `words` nearest to `word` by edit distance; empty when none is near.
std::string nearest_word(const std::string& word, const std::vector<std::string>& words);
/// "; did you mean WORD?" for the nearest of `words`; empty when none is near.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& words);

}  // namespace binade
