#include "binade/io/terminal/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "binade/core/error.h"
#include "binade/io/text/utf8.h"

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
  return color ? fmt::format("\x1b[{}m{}\x1b[0m", which == Color::kRed ? 31 : 32, text) : std::string(text);
}

std::string printable(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const char32_t c = point.value;
    if (!point.valid)
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    else if (is_displayable(c) || text.substr(at, 2) == "\r\n")
      append_utf8(result, c);
    else
      result += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
    at = point.end;
  }
  return result;
}

namespace {

std::string& muted_as() {  // empty: not muted
  static std::string name;
  return name;
}

void write_line(std::string_view text) {
  std::string line = printable(text);
  if (!line.ends_with('\n')) line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

void say(std::string_view text) {
  if (muted_as().empty()) write_line(text);
}

void say_error(std::string_view text) {
  write_line(muted_as().empty() ? std::string(text) : fmt::format("{}: {}", muted_as(), text));
}

void mute(std::string name) { muted_as() = std::move(name); }

void print(std::string_view text) {
  const std::string shown = printable(text);
  errno = 0;
  const bool written = std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size() && std::fflush(stdout) == 0;
  check<StorageError>(written, "standard output: cannot be written: {}", std::strerror(errno));
}

}  // namespace binade::io
