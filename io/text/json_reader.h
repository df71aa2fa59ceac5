#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace binade::io {

struct JsonLimits {
  std::uint64_t bytes = std::uint64_t{64} << 20;
  int depth = 32;
  /// Members of one object. If members keep their order (ordered_json), each one is compared with all earlier ones.
  std::size_t members = 1u << 20;
};

/// Reads one untrusted JSON value: UTF-8 within `limits`, no zero byte, nothing but blanks after the value, no
/// duplicate member in an object, no number beyond the range of a double. Throws DataError that begins with `name`. All
/// JSON in Binade is parsed here. `Json` is nlohmann::json or nlohmann::ordered_json, which this header does not
/// include.
template <class Json>
Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {});

/// The elements of a JSON text, in order, for a reader that builds no tree. A member function throws to stop the
/// reading.
struct JsonEvents {
  virtual ~JsonEvents() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void negative(std::int64_t value) = 0;
  virtual void natural(std::uint64_t value) = 0;
  virtual void fraction(double value) = 0;
  virtual void text(const std::string& value) = 0;
  virtual void key(const std::string& value) = 0;
  virtual void begin_object() = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
};

/// Applies the same checks, except for duplicate members: `events` has to refuse those.
void read_json_events(std::string_view text, const std::string& name, JsonEvents& events,
                      const JsonLimits& limits = {});

/// Version of the JSON library: "3.10.5".
std::string json_version();

}  // namespace binade::io
