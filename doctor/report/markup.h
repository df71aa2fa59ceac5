#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace binade::doctor::report {

/// Name and value of each attribute.
using Attributes = std::initializer_list<std::pair<const char*, std::string>>;

/// A piece of HTML or SVG. It is made of escaped text and of elements that this program names: a string that came out
/// of a file cannot become markup by accident.
class Markup {
 public:
  Markup() = default;
  Markup& operator+=(const Markup& more) {
    html_ += more.html_;
    return *this;
  }
  friend Markup operator+(Markup a, const Markup& b) { return a += b; }
  const std::string& html() const { return html_; }
  bool empty() const { return html_.empty(); }

 private:
  friend Markup text(std::string_view plain);
  friend Markup element(const char* name, Attributes attributes, const Markup& content);
  friend Markup shape(const char* name, Attributes attributes);
  explicit Markup(std::string html) : html_(std::move(html)) {}

  std::string html_;
};

/// `plain` as it is read: markup in it is escaped; what is not UTF-8, control characters and those that reorder a line
/// become U+FFFD.
Markup text(std::string_view plain);
/// <name attributes>content</name>. Values are escaped; an attribute of an empty value is left out.
Markup element(const char* name, Attributes attributes, const Markup& content);
inline Markup element(const char* name, const Markup& content) { return element(name, {}, content); }
/// <name attributes/>, for SVG shapes and HTML's void elements.
Markup shape(const char* name, Attributes attributes);

/// Words in an SVG; `kind` is their class.
Markup label(double x, double y, const char* kind, const std::string& words);

/// The bytes in base 64, for data: addresses.
std::string base64(std::string_view bytes);

}  // namespace binade::doctor::report
