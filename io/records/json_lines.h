#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "binade/io/files/files_below.h"

namespace binade::io {

/// Shortest decimal that reads back as the same number, in the type's own precision (0.1f is 0.1); NaN and infinities,
/// which JSON does not have, as the strings "nan", "inf", "-inf", quotes included.
std::string json_number(float value);
std::string json_number(double value);
/// `text` in quotes, escaped; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

/// One JSON object, members in the order in which they were added: {"step":1,"loss":4.174}
class JsonObject {
 public:
  JsonObject& add(std::string_view name, std::string_view value) { return add_raw(name, json_string(value)); }
  JsonObject& add(std::string_view name, const char* value) { return add(name, std::string_view(value)); }
  /// float, double, any integer, bool.
  template <class T>
  requires std::is_arithmetic_v<T> JsonObject& add(std::string_view name, T value) {
    if constexpr (std::is_same_v<T, bool>)
      return add_raw(name, value ? "true" : "false");
    else if constexpr (std::is_floating_point_v<T>)
      return add_raw(name, json_number(value));
    else
      return add_raw(name, std::to_string(value));
  }
  /// `json` must be a JSON value.
  JsonObject& add_raw(std::string_view name, std::string_view json);
  std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

/// A file of JSON objects, one per line (metrics.jsonl). Every line goes to the system in one write, so that a killed
/// process leaves whole lines but for the last. A checkpoint keeps offset(); a resumed run cuts the file back to it.
class JsonLines {
 public:
  /// Opens or creates a file in a folder, to append to it. Throws StorageError.
  JsonLines(const FilesBelow& folder, const std::string& name);

  /// Throws StorageError when the disk refuses; the file then ends where it ended before.
  void write(const JsonObject& line) { write_line(line.text()); }
  void write_line(std::string_view json);
  /// Bytes in the file.
  std::int64_t offset() const { return offset_; }
  /// Cuts the file back. Throws StorageError when it is shorter than `offset`.
  void truncate(std::int64_t offset);
  /// Waits until the bytes are on the disk. Throws StorageError.
  void sync();

 private:
  std::string path_;
  FileHandle file_;
  std::int64_t offset_ = 0;
};

}  // namespace binade::io
