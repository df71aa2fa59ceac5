#pragma once

#include <string>
#include <vector>

namespace binade {

/// Returns the number of insertions, deletions and replacements of characters that turn `a` into `b` (Levenshtein).
std::size_t edit_distance(const std::string& a, const std::string& b);
/// Returns the element of `words` nearest to `word` by edit distance, or an empty text if the distance of all of them
/// is more than a third of the length of `word` (and more than 2).
std::string nearest_word(const std::string& word, const std::vector<std::string>& words);
/// Returns "; did you mean WORD?" with nearest_word(), or an empty text if that is empty.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& words);

}  // namespace binade
