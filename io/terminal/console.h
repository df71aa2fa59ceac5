#pragma once

#include <string>
#include <string_view>

namespace binade::io {

/// A color of text on a terminal.
enum class Color { kRed, kGreen };

/// The capabilities of an output, which is a terminal or a file.
struct Console {
  bool terminal = false;  ///< true if a line can be redrawn
  bool color = false;
  int width = 80;  ///< width in columns

  /// Determines the capabilities of a file descriptor (2 is stderr) from the system and the environment: TERM=dumb is
  /// not a terminal, and a nonempty NO_COLOR disables colors (no-color.org).
  static Console of(int descriptor);

  /// Returns `text` in a color, or unchanged if colors are disabled.
  std::string paint(std::string_view text, Color color) const;
};

/// Escapes text that may come partly from a file, so that it cannot control the terminal. Control characters (C0 and
/// C1) except newline and tab, and characters that change the text direction, become \u001b and the like (valid in
/// JSON); bytes that are not UTF-8 become \xff and the like. A carriage return before a newline stays.
std::string printable(std::string_view text);

/// Writes lines for the user to stderr and adds a missing final newline. All text output of a program goes through
/// say() or print(); both write printable(text). Errors are ignored, because they could not be reported elsewhere.
void say(std::string_view text);
/// Like say(), for the error that ends a program: also if mute() was called.
void say_error(std::string_view text);
/// From now on, say() writes nothing, and say_error() puts `name` before its text: "rank 3". For a process whose
/// messages another process of the same run writes.
void mute(std::string name);
/// Writes results to stdout. Throws StorageError if that fails.
void print(std::string_view text);

}  // namespace binade::io
