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

/// Escapes text that may come partly from a file, so that it cannot control the terminal. Control characters (C0 and
/// C1) except newline and tab, and characters that change the text direction, are written like \u001b (which JSON reads
/// back); bytes that are not UTF-8 like \xff. A carriage return before a newline stays.
std::string printable(std::string_view text);

/// All text output of a program goes through say() or print(); both write printable(text). say() writes lines for
/// people to stderr and adds a missing final newline. Errors are ignored: there is no other place to report them.
void say(std::string_view text);
/// Writes results to stdout. Throws StorageError when they cannot be written.
void print(std::string_view text);

}  // namespace binade::io
