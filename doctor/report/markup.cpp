#include "binade/doctor/report/markup.h"

#include <fmt/core.h>

#include "binade/io/text/utf8.h"

namespace binade::doctor::report {

namespace {

std::string escaped(std::string_view plain) {
  std::string html;
  html.reserve(plain.size());
  for (std::size_t at = 0; at < plain.size();) {
    const io::CodePoint point = io::decode_utf8(plain, at);
    switch (point.valid && io::is_displayable(point.value) ? point.value : 0xFFFD) {
      case '&': html += "&amp;"; break;
      case '<': html += "&lt;"; break;
      case '>': html += "&gt;"; break;
      case '"': html += "&quot;"; break;
      case '\'': html += "&#39;"; break;
      case 0xFFFD: io::append_utf8(html, 0xFFFD); break;
      default: html += plain.substr(at, point.end - at);
    }
    at = point.end;
  }
  return html;
}

std::string opening(const char* name, Attributes attributes) {
  std::string html = std::string("<") + name;
  for (const auto& [attribute, value] : attributes)
    if (!value.empty()) html += std::string(" ") + attribute + "=\"" + escaped(value) + "\"";
  return html;
}

}  // namespace

Markup text(std::string_view plain) { return Markup(escaped(plain)); }

Markup element(const char* name, Attributes attributes, const Markup& content) {
  return Markup(opening(name, attributes) + ">" + content.html() + "</" + name + ">");
}

Markup shape(const char* name, Attributes attributes) { return Markup(opening(name, attributes) + "/>"); }

Markup label(double x, double y, const char* kind, const std::string& words) {
  return element("text", {{"x", fmt::format("{:.1f}", x)}, {"y", fmt::format("{:.1f}", y)}, {"class", kind}},
                 text(words));
}

Markup remark(std::string_view words) { return element("p", {{"class", "empty"}}, text(words)); }

std::string base64(std::string_view bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string digits;
  digits.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i) digits += at + i <= bytes.size() ? kDigits[group >> (18 - 6 * i) & 63] : '=';
  }
  return digits;
}

}  // namespace binade::doctor::report
