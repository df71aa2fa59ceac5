#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "binade/core/error.h"
#include "binade/io/text/json_reader.h"

/// Functions that read members of an untrusted JSON object. A value of the wrong type counts as missing. They are
/// templates, so that this header need not include the JSON library.
namespace binade::doctor::report {

/// The value of a number that is missing.
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

/// Returns a number, or the infinity that a string "inf" or "-inf" encodes; NaN for anything else.
template <class Json>
double number_of(const Json& value) {
  if (value.is_number()) return value.template get<double>();
  if (!value.is_string()) return kMissing;
  const auto& word = value.template get_ref<const std::string&>();
  if (word == "inf") return std::numeric_limits<double>::infinity();
  return word == "-inf" ? -std::numeric_limits<double>::infinity() : kMissing;
}

/// Returns the member `name`, or null if it is missing or `object` is not an object.
template <class Json>
const Json* member_of(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto at = object.find(name);
  return at == object.end() ? nullptr : &*at;
}

/// Returns the member `name`, converted by number_of(); NaN if it is missing.
template <class Json>
double number_in(const Json& object, const char* name) {
  const Json* value = member_of(object, name);
  return value == nullptr ? kMissing : number_of(*value);
}

/// Returns the member `name` if it is an integer >= 0 that a double represents exactly, otherwise std::nullopt.
template <class Json>
std::optional<std::int64_t> count_in(const Json& object, const char* name) {
  const double value = number_in(object, name);
  if (!(value >= 0 && value <= 9007199254740992.0) || value != std::floor(value)) return std::nullopt;
  return static_cast<std::int64_t>(value);
}

/// Returns the member `name` if it is a string, otherwise an empty string.
template <class Json>
std::string text_in(const Json& object, const char* name) {
  const Json* value = member_of(object, name);
  return value != nullptr && value->is_string() ? value->template get<std::string>() : std::string();
}

/// Returns the member `name` if it is true or false, otherwise std::nullopt.
template <class Json>
std::optional<bool> flag_in(const Json& object, const char* name) {
  const Json* value = member_of(object, name);
  if (value == nullptr || !value->is_boolean()) return std::nullopt;
  return value->template get<bool>();
}

/// Returns the member `name` if it is an object, otherwise an empty object.
template <class Json>
Json object_in(const Json& object, const char* name) {
  const Json* value = member_of(object, name);
  return value != nullptr && value->is_object() ? *value : Json::object();
}

/// Parses `text`; returns a null value if it is not an object, or not JSON that io/text/json_reader.h accepts.
template <class Json>
Json object_from(const std::string& text) {
  try {
    Json value = io::parse_json<Json>(text, "", {.members = 10'000});
    return value.is_object() ? value : Json();
  } catch (const DataError&) {
    return Json();
  }
}

}  // namespace binade::doctor::report
