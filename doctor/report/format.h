#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace binade::doctor::report {

/// Returns the number with commas: "1,234,567".
std::string count_text(std::int64_t count);
/// Returns the number with four significant digits ("0.01234", "1.3e-07") or, from 10,000 on, as an integer with
/// commas.
std::string number_text(double value);
/// Returns the count with the noun in singular or plural: "1 step", "3 steps".
std::string counted(std::int64_t count, const std::string& noun);
/// Returns a duration in suitable units: "41 s", "12 min" or "3 h 20 min".
std::string duration_text(double seconds);
/// Returns a headroom as text: "3.21 binades", or a description of an infinity or NaN.
std::string binades_text(double binades);
/// Returns a loss scale as text: "2¹⁶" for a power of two, otherwise the number.
std::string scale_text(double scale);
/// Truncates a text to at most `bytes` at a character boundary and adds an ellipsis.
std::string clipped(std::string_view text, std::size_t bytes);

}  // namespace binade::doctor::report
