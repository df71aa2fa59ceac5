#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "binade/io/files/files_below.h"

namespace binade::io {

/// Returns the shortest decimal that reads back as the same number in its type (0.1f is 0.1). NaN and infinities, which
/// JSON does not have, become the strings "nan", "inf", "-inf", quotes included.
std::string json_number(float value);
std::string json_number(double value);
/// Returns `text` as a JSON string, quoted and escaped; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

/// Returns the JSON array of `json_of(value)` for each value.
template <class Values, class F>
std::string json_array(const Values& values, F&& json_of, std::string_view separator = ", ") {
  std::string text;
  for (const auto& value : values) text.append(text.empty() ? "" : separator).append(json_of(value));
  return "[" + text + "]";
}

/// Builds a JSON object, with the members in the order of the calls to add(): {"step":1,"loss":4.174}
class JsonObject {
 public:
  JsonObject& add(std::string_view name, std::string_view value) { return add_raw(name, json_string(value)); }
  /// Adds a float, double, bool or any integer.
  template <class T>
  requires std::is_arithmetic_v<T> JsonObject& add(std::string_view name, T value) {
    if constexpr (std::is_same_v<T, bool>)
      return add_raw(name, value ? "true" : "false");
    else if constexpr (std::is_floating_point_v<T>)
      return add_raw(name, json_number(value));
    else
      return add_raw(name, std::to_string(value));
  }
  /// Adds a value that is already JSON.
  JsonObject& add_raw(std::string_view name, std::string_view json);
  std::string text() const { return "{" + members_ + "}"; }

 private:
  std::string members_;
};

/// A file of JSON objects, one per line (metrics.jsonl). Every line is written by one system call, so that a killed
/// process leaves at most its last line incomplete. A checkpoint stores offset(); a resumed run truncates the file to
/// it.
class JsonLines {
 public:
  /// Opens or creates a file in a folder for appending. Throws StorageError.
  JsonLines(const FilesBelow& folder, const std::string& name);

  /// Appends a line. Throws StorageError if that fails; the file then keeps its previous end.
  void write(const JsonObject& line) { write_line(line.text()); }
  void write_line(std::string_view json);
  /// Returns the size of the file in bytes.
  std::int64_t offset() const { return offset_; }
  /// Truncates the file to `offset` bytes. Throws StorageError if it is shorter.
  void truncate(std::int64_t offset);
  /// Flushes the file to the disk. Throws StorageError.
  void sync();

 private:
  std::string path_;
  FileHandle file_;
  std::int64_t offset_ = 0;
};

/// Returns the time as "2026-11-22T03:45:06Z", for display only: no behavior depends on the clock.
std::string utc_now();

}  // namespace binade::io
