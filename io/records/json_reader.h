#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace binade::io {

struct JsonLimits {
  std::uint64_t bytes = std::uint64_t{64} << 20;
  int depth = 32;
  /// Of one object. Where members keep their order (ordered_json), each one is compared with all before it.
  std::size_t members = 1u << 20;
};

/// Reads one JSON value, whoever wrote it: UTF-8 within `limits`, no zero byte, nothing but blanks behind the value, no
/// member twice in an object, no number beyond a double. Throws DataError that begins with `name`. The one parser of
/// the house: `Json` is nlohmann::json or nlohmann::ordered_json, which this header does not include.
template <class Json>
Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {});

/// What a JSON text consists of, in its order, for a reader that builds no tree. Throw to end the reading.
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

/// The same checks, but for members that come twice: they are for `events` to refuse.
void read_json_events(std::string_view text, const std::string& name, JsonEvents& events,
                      const JsonLimits& limits = {});

}  // namespace binade::io
