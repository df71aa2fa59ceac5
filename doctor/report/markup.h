#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace binade::doctor::report {

/// The name and the value of each attribute of an element.
using Attributes = std::initializer_list<std::pair<const char*, std::string>>;

/// HTML or SVG, built only from escaped text and from elements that this program names, so that a string from a file
/// cannot become markup.
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

/// Escapes plain text. Bytes that are not UTF-8, control characters and characters that reorder text become U+FFFD.
Markup text(std::string_view plain);
/// Makes <name attributes>content</name>. Values are escaped; attributes with empty values are omitted.
Markup element(const char* name, Attributes attributes, const Markup& content);
inline Markup element(const char* name, const Markup& content) { return element(name, {}, content); }
/// Makes <name attributes/>, for SVG shapes and HTML's void elements.
Markup shape(const char* name, Attributes attributes);

/// Makes a text element of an SVG. `kind` is its class in the style sheet.
Markup label(double x, double y, const char* kind, const std::string& words);

/// Makes a paragraph that says why a section or a chart has no content.
Markup remark(std::string_view words);

/// Encodes bytes in base 64, for data: URLs.
std::string base64(std::string_view bytes);

}  // namespace binade::doctor::report
