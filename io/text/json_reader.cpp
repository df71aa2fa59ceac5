#include "binade/io/text/json_reader.h"

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "binade/core/error.h"
#include "binade/io/text/utf8.h"

namespace binade::io {
namespace {

/// Throws DataError for a text that the parser would wrongly accept, or that would exhaust its stack or take hours.
void check_text(std::string_view text, const std::string& name, const JsonLimits& limits) {
  check<DataError>(text.size() <= limits.bytes, "{}: wanted JSON of at most {} bytes, got {}", name, limits.bytes,
                   text.size());
  const std::size_t bad = find_bad_utf8(text);
  check<DataError>(bad == std::string::npos, "{}: wanted JSON in UTF-8, got a bad byte at offset {}", name, bad);
  // nlohmann's lexer treats a zero byte as the end of the text and ignores everything after it.
  const std::size_t zero = text.find('\0');
  check<DataError>(zero == std::string::npos, "{}: wanted JSON, got a zero byte at offset {}", name, zero);
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      check<DataError>(++depth <= limits.depth, "{}: wanted JSON nested at most {} deep, got more at offset {}", name,
                       limits.depth, i);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

/// Remembers the keys that were read in each enclosing object, innermost last, and refuses duplicates.
class OpenObjects {
 public:
  OpenObjects(const std::string& name, const JsonLimits& limits) : name_(name), limits_(limits) {}
  void begin() { keys_.emplace_back(); }
  void end() { keys_.pop_back(); }
  void add(const std::string& key) {
    check<DataError>(keys_.back().insert(key).second, "{}: wanted each member once, got \"{}\" twice in one object",
                     name_, key.substr(0, 80));
    check<DataError>(keys_.back().size() <= limits_.members, "{}: wanted at most {} members in an object, got more",
                     name_, limits_.members);
  }

 private:
  const std::string& name_;
  const JsonLimits& limits_;
  std::vector<std::unordered_set<std::string>> keys_;
};

class Forwarder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Forwarder(const std::string& name, JsonEvents& events) : name_(name), events_(events) {}
  bool null() override { return events_.null(), true; }
  bool boolean(bool value) override { return events_.boolean(value), true; }
  bool number_integer(number_integer_t value) override { return events_.negative(value), true; }
  bool number_unsigned(number_unsigned_t value) override { return events_.natural(value), true; }
  bool number_float(number_float_t value, const string_t&) override { return events_.fraction(value), true; }
  bool string(string_t& value) override { return events_.text(value), true; }
  bool binary(binary_t&) override { return false; }  // JSON text has no binary values
  bool key(string_t& value) override { return events_.key(value), true; }
  bool start_object(std::size_t) override { return events_.begin_object(), true; }
  bool end_object() override { return events_.end_object(), true; }
  bool start_array(std::size_t) override { return events_.begin_array(), true; }
  bool end_array() override { return events_.end_array(), true; }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    throw DataError(fmt::format("{}: it is not JSON at byte {}", name_, at));
  }

 private:
  const std::string& name_;
  JsonEvents& events_;
};

}  // namespace

template <class Json>
Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  check_text(text, name, limits);
  OpenObjects objects(name, limits);
  const auto watch = [&](int, typename Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) objects.begin();
    if (event == Json::parse_event_t::object_end) objects.end();
    if (event == Json::parse_event_t::key) objects.add(parsed.template get_ref<const std::string&>());
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::detail::parse_error& error) {
    throw DataError(fmt::format("{}: wanted JSON, got a syntax error at byte {}", name, error.byte));
  } catch (const nlohmann::detail::exception& error) {
    throw DataError(fmt::format("{}: wanted JSON: {}", name, error.what()));
  }
}

template nlohmann::json parse_json<nlohmann::json>(std::string_view, const std::string&, const JsonLimits&);
template nlohmann::ordered_json parse_json<nlohmann::ordered_json>(std::string_view, const std::string&,
                                                                   const JsonLimits&);

void read_json_events(std::string_view text, const std::string& name, JsonEvents& events, const JsonLimits& limits) {
  check_text(text, name, limits);
  Forwarder forwarder(name, events);
  nlohmann::json::sax_parse(text.begin(), text.end(), &forwarder);
}

std::string json_version() {
  return fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH);
}

}  // namespace binade::io
