#include "io/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "io/utf8.h"

namespace binade::io {

Console Console::of(int descriptor) {
  Console console;
  const char* term = std::getenv("TERM");
  console.terminal = ::isatty(descriptor) == 1 && term != nullptr && std::string_view(term) != "dumb";
  const char* no_color = std::getenv("NO_COLOR");
  console.color = console.terminal && (no_color == nullptr || *no_color == '\0');
  winsize size{};
  if (console.terminal && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) console.width = size.ws_col;
  return console;
}

std::string Console::paint(std::string_view text, Color which) const {
  if (!color || which == Color::kNone) return std::string(text);
  const char* code = "";
  switch (which) {
    case Color::kBold: code = "1"; break;
    case Color::kDim: code = "2"; break;
    case Color::kRed: code = "31"; break;
    case Color::kGreen: code = "32"; break;
    case Color::kYellow: code = "33"; break;
    case Color::kBlue: code = "34"; break;
    case Color::kNone: break;
  }
  return std::string("\x1b[") + code + "m" + std::string(text) + "\x1b[0m";
}

std::string printable(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const char32_t c = point.valid ? point.value : 0xFFFD;
    if ((c >= 0x20 && c < 0x7F) || c >= 0xA0 || c == '\n' || c == '\t') append_utf8(result, c);
    at = point.end;
  }
  return result;
}

}  // namespace binade::io
