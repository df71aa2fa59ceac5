#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace binade::doctor::report {

/// "1,234,567"
std::string count_text(std::int64_t count);
/// Four significant digits: "0.01234", "1.3e-07"; at 10,000 and above whole numbers with commas.
std::string number_text(double value);
/// "3 steps", "1 step"
std::string counted(std::int64_t count, const std::string& noun);
/// "41 s", "12 min", "3 h 20 min"
std::string duration_text(double seconds);
/// "3.21 binades"; infinite ones in words.
std::string binades_text(double binades);
/// "2¹⁶" for a power of two, the number elsewhere.
std::string scale_text(double scale);
/// Cut to `bytes` at the boundary of a character, with an ellipsis.
std::string clipped(std::string_view text, std::size_t bytes);

}  // namespace binade::doctor::report
