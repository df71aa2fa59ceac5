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

/// The engine that a library has chosen for a key, as values and as a line of text. This file includes no header of a
/// library.
namespace binade::cuda {

using Knobs = std::vector<std::pair<std::int64_t, std::int64_t>>;  ///< an engine's tuning parameters: type, value

/// The engine of a library that computes a key, or the decision that Binade's own kernel computes it.
struct EngineChoice {
  bool library = false;     ///< false: the key is computed by our own kernel
  int form = 0;             ///< number of the graph that computes the key (ConvForm, AttentionForm)
  std::int64_t engine = 0;  ///< cuDNN's number of the engine
  Knobs knobs;
  bool is_compiled = false;  ///< cuDNN compiles the kernel when a plan is made (about a second); not part of the text

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

/// Returns values of any integral types as one array of 64-bit integers.
template <class... N>
std::array<std::int64_t, sizeof...(N)> numbers_of(N... values) {
  return {static_cast<std::int64_t>(values)...};
}
/// Returns a hash of all numbers, in their order.
std::size_t hash_of(std::span<const std::int64_t> numbers);

}  // namespace binade::cuda
