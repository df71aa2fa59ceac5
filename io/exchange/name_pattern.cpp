#include "binade/io/exchange/name_pattern.h"

#include <algorithm>
#include <utility>

#include "binade/core/error.h"

namespace binade::io {

NamePattern::NamePattern(const std::string& text, bool literal) : text_(text) {
  std::string plain;
  const auto flush = [&] {
    if (!plain.empty()) pieces_.push_back({std::exchange(plain, {})});
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (literal || (text[i] != '{' && text[i] != '}')) {
      plain += text[i];
      continue;
    }
    const char what = i + 2 < text.size() && text[i] == '{' && text[i + 2] == '}' ? text[i + 1] : '\0';
    check<ArgumentError>(what == '*' || (what >= '1' && what <= '9'), "{}: wanted {{1}} to {{9}} or {{*}} in braces",
                         text);
    flush();
    const int capture = what == '*' ? 0 : what - '0';
    check<ArgumentError>(capture != 0 || captures_.insert(0).second, "{}: wanted at most one {{*}} in a name", text);
    captures_.insert(capture);
    pieces_.push_back({{}, capture});
    i += 2;
  }
  flush();
}

std::string_view NamePattern::begin() const {
  return pieces_.empty() || pieces_.front().capture >= 0 ? std::string_view() : std::string_view(pieces_.front().text);
}

bool NamePattern::match(std::string_view name, Captures& captures) const {
  if (exact()) return name == text_;
  std::set<int> bound;
  return match_from(0, name, captures, bound);
}

bool NamePattern::match_from(std::size_t piece, std::string_view rest, Captures& captures, std::set<int>& bound) const {
  if (piece == pieces_.size()) return rest.empty();
  const Piece& p = pieces_[piece];
  const bool fixed = p.capture < 0 || bound.contains(p.capture);
  if (fixed) {
    const std::string& wanted = p.capture < 0 ? p.text : captures[static_cast<std::size_t>(p.capture)];
    return rest.starts_with(wanted) && match_from(piece + 1, rest.substr(wanted.size()), captures, bound);
  }
  const std::size_t most = p.capture == 0 ? rest.size() : std::min(rest.find('.'), rest.size());
  bound.insert(p.capture);
  for (std::size_t length = most + 1; length-- > (p.capture == 0 ? 0u : 1u);) {
    captures[static_cast<std::size_t>(p.capture)] = std::string(rest.substr(0, length));
    if (match_from(piece + 1, rest.substr(length), captures, bound)) return true;
  }
  bound.erase(p.capture);
  return false;
}

std::string NamePattern::fill(const Captures& captures) const {
  std::string name;
  for (const Piece& p : pieces_) name += p.capture < 0 ? p.text : captures[static_cast<std::size_t>(p.capture)];
  return name;
}

}  // namespace binade::io
