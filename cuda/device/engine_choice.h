#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The engine that a library has chosen for a key, as values and as a line of text. This file needs no library header.
namespace binade::cuda {

using Knobs = std::vector<std::pair<std::int64_t, std::int64_t>>;  ///< an engine's tuning parameters: type, value

/// The engine of a library that computes a key, or none.
struct EngineChoice {
  bool library = false;  ///< false: the key is computed by our own kernel
  int form = 0;          ///< which of the graphs that compute the key
  std::int64_t engine = 0;
  Knobs knobs;
  bool is_compiled = false;  ///< its kernel is compiled when a plan is made (about a second); no part of the text

  bool operator==(const EngineChoice& other) const {
    return library == other.library && form == other.form && engine == other.engine && knobs == other.knobs;
  }
};

/// Returns "KEY = form 0 engine 38 knobs 2:5 13:1", or "KEY = own" if our own kernel computes the key.
std::string engine_line(const std::string& key, const EngineChoice& choice);
/// The content of a line of a plans file: the key of an operation, and the engine that computes it.
struct EngineLine {
  std::string key;
  EngineChoice choice;
};
/// Parses a line as engine_line() writes it. Returns std::nullopt unless its key begins with the word `family` and its
/// form is one of `forms`.
std::optional<EngineLine> parse_engine_line(std::string_view line, std::string_view family, int forms);

/// Returns the largest power of two, up to 16, that divides the address.
int alignment_of(const void* at);

/// Returns values of any integral types as one array.
template <class... N>
std::array<std::int64_t, sizeof...(N)> numbers_of(N... values) {
  return {static_cast<std::int64_t>(values)...};
}
std::size_t hash_of(std::span<const std::int64_t> numbers);

}  // namespace binade::cuda
