#pragma once

#include <string>
#include <string_view>

namespace binade::io {

enum class Color { kNone, kBold, kDim, kRed, kGreen, kYellow, kBlue };

/// What may be sent to a terminal, or to a file that takes its place.
struct Console {
  bool terminal = false;  ///< lines can be drawn again
  bool color = false;
  int width = 80;  ///< columns

  /// Looks at a file descriptor (2 is stderr) and at the environment: TERM=dumb is no terminal, NO_COLOR (set to
  /// anything but nothing, see no-color.org) takes the colors away.
  static Console of(int descriptor);

  /// `text` in a color, or as it is.
  std::string paint(std::string_view text, Color color) const;
};

/// Removes what would steer a terminal from text that comes from outside: control characters (C0 and C1) but newline
/// and tab. Bytes that are not UTF-8 become U+FFFD.
std::string printable(std::string_view text);

}  // namespace binade::io
