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

/// Text of which parts may come from a file, so that it cannot steer a terminal: control characters (C0 and C1) but
/// newline and tab, and those that change the direction of text, as \u001b (which JSON reads back); bytes that are not
/// UTF-8 as \xff. A carriage return before a newline stays.
std::string printable(std::string_view text);

/// The two ways out of a program, for all text, whatever it holds: both send printable().
/// Lines for people, to stderr; a newline is added where none ends the text. Errors are ignored: there is no other
/// place to report them.
void say(std::string_view text);
/// Results, to stdout. Throws StorageError when they cannot be written.
void print(std::string_view text);

}  // namespace binade::io
