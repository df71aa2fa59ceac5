#include "binade/io/text/pretokenize.h"

#include "binade/io/text/unicode_classes.h"
#include "binade/io/text/utf8.h"

namespace binade::io {
namespace {

enum class Class { kLetter, kNumber, kSpace, kOther, kEnd };

struct Character {
  Class kind = Class::kEnd;
  std::size_t end = 0;
};

Character character_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {Class::kEnd, text.size()};
  const CodePoint point = decode_utf8(text, at);
  if (!point.valid) return {Class::kOther, point.end};
  if (is_letter(point.value)) return {Class::kLetter, point.end};
  if (is_number(point.value)) return {Class::kNumber, point.end};
  if (is_space(point.value)) return {Class::kSpace, point.end};
  return {Class::kOther, point.end};
}

std::size_t end_of_run(std::string_view text, std::size_t at, Class kind) {
  for (Character next = character_at(text, at); next.kind == kind; next = character_at(text, at)) at = next.end;
  return at;
}

/// Returns the length of an English contraction ("'s", "'ll") that begins at `at`, or 0.
std::size_t contraction_length(std::string_view text, std::size_t at) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.substr(at).starts_with(ending)) return ending.size();
  return 0;
}

/// Returns the offset after the part that begins at offset `at`.
std::size_t part_end(std::string_view text, std::size_t at) {
  if (const std::size_t length = contraction_length(text, at)) return at + length;

  const std::size_t word = text[at] == ' ' ? at + 1 : at;  // a word may begin with one space
  const Character first = character_at(text, word);
  if (first.kind != Class::kSpace && first.kind != Class::kEnd) return end_of_run(text, first.end, first.kind);

  // A run of several spaces before other text leaves its last character to the next part.
  std::size_t last = at;
  std::size_t end = at;
  for (Character next = character_at(text, at); next.kind == Class::kSpace; next = character_at(text, end)) {
    last = end;
    end = next.end;
  }
  return end == text.size() || last == at ? end : last;
}

}  // namespace

std::vector<std::string_view> pretokenize_gpt2(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = part_end(text, at);
    parts.push_back(text.substr(at, end - at));
    at = end;
  }
  return parts;
}

}  // namespace binade::io
