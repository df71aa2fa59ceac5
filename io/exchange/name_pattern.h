#pragma once

#include <array>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace binade::io {

/// A name with captures {1} to {9}, which match a part of a name without dots, and {*}, which matches any text.
class NamePattern {
 public:
  /// The texts that captures matched; 0 is {*}.
  using Captures = std::array<std::string, 10>;

  /// Throws ArgumentError for braces around anything else, and for a second {*}. `literal`: braces are no captures.
  NamePattern(const std::string& text, bool literal);
  /// Returns true if the whole name matches, and stores the text that each capture matched.
  bool match(std::string_view name, Captures& captures) const;
  /// Returns the name in which these texts replace the captures.
  std::string fill(const Captures& captures) const;

  bool exact() const { return captures_.empty(); }             ///< true if there are no captures
  const std::set<int>& captures() const { return captures_; }  ///< numbers of the captures; 0 is {*}
  const std::string& text() const { return text_; }            ///< the text given to the constructor
  /// Returns the literal text before the first capture.
  std::string_view begin() const;

 private:
  /// Literal text, or the number of a capture.
  struct Piece {
    std::string text{};
    int capture = -1;
  };
  bool match_from(std::size_t piece, std::string_view rest, Captures& captures, std::set<int>& bound) const;

  std::string text_;
  std::vector<Piece> pieces_;
  std::set<int> captures_;
};

}  // namespace binade::io
