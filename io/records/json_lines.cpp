#include "binade/io/records/json_lines.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <ctime>

#include "binade/core/error.h"
#include "binade/io/text/utf8.h"

namespace binade::io {
namespace {

template <class T>
std::string number_text(T value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  return {text, end.ptr};
}

}  // namespace

std::string json_number(float value) { return number_text(value); }
std::string json_number(double value) { return number_text(value); }

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const char32_t c = point.valid ? point.value : 0xFFFD;
    switch (c) {
      case '"': result += "\\\""; break;
      case '\\': result += "\\\\"; break;
      case '\n': result += "\\n"; break;
      case '\r': result += "\\r"; break;
      case '\t': result += "\\t"; break;
      default:
        if (c < 0x20 || c == 0x7F)
          result += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
        else
          append_utf8(result, c);
    }
    at = point.end;
  }
  return result + "\"";
}

JsonObject& JsonObject::add_raw(std::string_view name, std::string_view json) {
  if (!members_.empty()) members_ += ',';
  members_ += json_string(name);
  members_ += ':';
  members_ += json;
  return *this;
}

JsonLines::JsonLines(const FilesBelow& folder, const std::string& name)
    : path_(folder.path_of(name)), file_(folder.append_to(name)) {
  FileStatus status;
  const int error = folder.ops().status(file_.get(), status);
  check<StorageError>(error == 0, "{}: cannot be examined: {}", path_, error_text(error));
  offset_ = static_cast<std::int64_t>(status.bytes);
}

void JsonLines::write_line(std::string_view json) {
  const std::string line = std::string(json) + '\n';
  if (const int error = write_all(FileOps::real(), file_.get(), bytes_of(line))) {
    const bool restored = ::ftruncate(file_.get(), offset_) == 0;
    throw StorageError(fmt::format("{}: cannot be written: {}{}", path_, std::strerror(error),
                                   restored ? "" : " (its last line is incomplete)"));
  }
  offset_ += static_cast<std::int64_t>(line.size());
}

void JsonLines::truncate(std::int64_t offset) {
  check<StorageError>(offset >= 0 && offset <= offset_, "{}: wanted at least {} bytes, got {}; the log was truncated",
                      path_, offset, offset_);
  check<StorageError>(::ftruncate(file_.get(), offset) == 0, "{}: cannot be truncated: {}", path_,
                      std::strerror(errno));
  offset_ = offset;
}

void JsonLines::sync() {
  check<StorageError>(::fsync(file_.get()) == 0, "{}: cannot be flushed to the disk: {}", path_, std::strerror(errno));
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace binade::io
