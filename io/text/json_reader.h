#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace binade::io {

/// Limits on an untrusted JSON text.
struct JsonLimits {
  std::uint64_t bytes = std::uint64_t{64} << 20;  ///< largest size of the text
  int depth = 32;                                 ///< largest depth of nested objects and arrays
  /// Largest number of members of one object. It bounds the time, because nlohmann::ordered_json compares each
  /// member with all earlier ones.
  std::size_t members = 1u << 20;
};

/// Parses one untrusted JSON value: UTF-8 within `limits`, no zero byte, only white space after the value, no duplicate
/// member in an object, no number beyond the range of a double. Throws DataError whose text begins with `name`. All
/// JSON in Binade is parsed here. `Json` is nlohmann::json or nlohmann::ordered_json, which this header does not
/// include.
template <class Json>
Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {});

/// Receives the elements of a JSON text in order, without a tree in memory. A member function may throw to stop the
/// parsing.
struct JsonEvents {
  virtual ~JsonEvents() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void negative(std::int64_t value) = 0;  ///< a negative integer
  virtual void natural(std::uint64_t value) = 0;  ///< an integer >= 0
  virtual void fraction(double value) = 0;        ///< any other number
  virtual void text(const std::string& value) = 0;
  virtual void key(const std::string& value) = 0;
  virtual void begin_object() = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
};

/// Parses a JSON text with the checks of parse_json(), except for duplicate members, which `events` must refuse.
void read_json_events(std::string_view text, const std::string& name, JsonEvents& events,
                      const JsonLimits& limits = {});

/// Returns the version of the JSON library: "3.10.5".
std::string json_version();

}  // namespace binade::io
