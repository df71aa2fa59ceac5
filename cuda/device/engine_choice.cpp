#include "binade/cuda/device/engine_choice.h"

#include <fmt/format.h>

#include <charconv>

namespace binade::cuda {
namespace {

/// Removes the first word of `text` and returns it.
std::string_view next_word(std::string_view& text) {
  const std::size_t from = std::min(text.find_first_not_of(' '), text.size());
  const std::size_t to = std::min(text.find(' ', from), text.size());
  const std::string_view word = text.substr(from, to - from);
  text.remove_prefix(to);
  return word;
}

bool read(std::string_view word, std::int64_t& value) {
  const char* end = word.data() + word.size();
  const auto [stopped, error] = std::from_chars(word.data(), end, value);
  return error == std::errc() && stopped == end && !word.empty();
}

}  // namespace

std::string engine_line(const std::string& key, const EngineChoice& choice) {
  if (!choice.library) return key + " = own";
  std::string line = fmt::format("{} = form {} engine {} knobs", key, choice.form, choice.engine);
  for (const auto& [type, value] : choice.knobs) line += fmt::format(" {}:{}", type, value);
  return line;
}

std::optional<EngineLine> parse_engine_line(std::string_view line, std::string_view family, int forms) {
  const std::size_t equals = line.find(" = ");
  if (equals == std::string_view::npos || !line.starts_with(family) || line.substr(family.size(), 1) != " ") return {};
  EngineLine plan{.key = std::string(line.substr(0, equals)), .choice = {}};
  std::string_view rest = line.substr(equals + 3);
  if (rest == "own") return plan;
  EngineChoice& choice = plan.choice;
  choice.library = true;
  std::int64_t form = 0;
  if (next_word(rest) != "form" || !read(next_word(rest), form) || form < 0 || form >= forms) return {};
  choice.form = static_cast<int>(form);
  if (next_word(rest) != "engine" || !read(next_word(rest), choice.engine) || next_word(rest) != "knobs") return {};
  for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
    const std::size_t colon = word.find(':');
    std::pair<std::int64_t, std::int64_t> knob;
    if (colon == std::string_view::npos || !read(word.substr(0, colon), knob.first) ||
        !read(word.substr(colon + 1), knob.second))
      return {};
    choice.knobs.push_back(knob);
  }
  return plan;
}

int alignment_of(const void* at) {
  int bytes = 16;
  while (reinterpret_cast<std::uintptr_t>(at) % static_cast<unsigned>(bytes) != 0) bytes /= 2;
  return bytes;
}

std::size_t hash_of(std::span<const std::int64_t> numbers) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, one number at a time
  for (const std::int64_t n : numbers) hash = (hash ^ static_cast<std::uint64_t>(n)) * 0x100000001b3u;
  return static_cast<std::size_t>(hash ^ hash >> 32);
}

}  // namespace binade::cuda
