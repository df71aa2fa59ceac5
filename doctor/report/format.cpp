#include "binade/doctor/report/format.h"

#include <fmt/core.h>

#include <cmath>

namespace binade::doctor::report {

std::string count_text(std::int64_t count) {
  std::string digits = std::to_string(count);
  const std::ptrdiff_t first = count < 0 ? 1 : 0;
  for (std::ptrdiff_t at = std::ssize(digits) - 3; at > first; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  const double size = std::abs(value);
  if (size >= 1e4 && size < 1e15) return count_text(std::llround(value));
  return fmt::format("{:.4g}", value);
}

std::string counted(std::int64_t count, const std::string& noun) {
  return count_text(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string duration_text(double seconds) {
  if (seconds < 10) return fmt::format("{:.1f} s", seconds);
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  const std::int64_t minutes = std::llround(seconds / 60);
  if (minutes < 120) return fmt::format("{} min", minutes);
  return fmt::format("{} h {} min", count_text(minutes / 60), minutes % 60);
}

std::string binades_text(double binades) {
  if (std::isnan(binades)) return "not sampled";
  if (std::isinf(binades)) return binades < 0 ? "overflow or NaN" : "no values, or only zeros";
  return fmt::format("{:.2f} binades", binades);
}

std::string scale_text(double scale) {
  int exponent = 0;
  if (!(scale > 0) || std::isinf(scale) || std::frexp(scale, &exponent) != 0.5) return number_text(scale);
  constexpr const char* kRaised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string raised;
  for (const char digit : std::to_string(exponent - 1)) raised += digit == '-' ? "⁻" : kRaised[digit - '0'];
  return "2" + raised;
}

std::string clipped(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return std::string(text.substr(0, bytes)) + "…";
}

}  // namespace binade::doctor::report
