#include "binade/io/checkpoint/manifest.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "binade/core/crc32c.h"
#include "binade/io/files/file_ops.h"

namespace binade::io {

namespace {

constexpr std::string_view kHead = "binade-manifest 1 ";
constexpr std::string_view kHigher = "higher:";  // prefix of a score if higher is better
constexpr std::string_view kStatuses[] = {"committed", "verified", "good"};

/// Returns the line with its CRC-32C and a line break at the end.
std::string sealed(const std::string& line) {
  return fmt::format("{} {:08x}\n", line, crc32c(line.data(), line.size()));
}

/// Returns "-" for no score; a bare number if lower is better, as in older MANIFEST files, whose
/// scores have no direction.
std::string score_text(const std::optional<Score>& score) {
  return score ? fmt::format("{}{}", score->higher_is_better ? kHigher : "", score->value) : "-";
}

/// Returns the line without its CRC, or std::nullopt if the CRC is wrong.
std::optional<std::string_view> unsealed(std::string_view line) {
  if (line.size() < 9 || line[line.size() - 9] != ' ') return std::nullopt;
  const std::string_view body = line.substr(0, line.size() - 9);
  if (fmt::format("{:08x}", crc32c(body.data(), body.size())) != line.substr(line.size() - 8)) return std::nullopt;
  return body;
}

std::string_view next_word(std::string_view& rest) {
  const std::size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return word;
}

template <class T>
bool parse(std::string_view word, T& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc{} && end == word.data() + word.size();
}

std::optional<ManifestEntry> entry_from(std::string_view line) {
  ManifestEntry e;
  if (!parse(next_word(line), e.step)) return std::nullopt;
  e.file = next_word(line);
  if (step_of_file_name(e.file) != e.step) return std::nullopt;
  if (!parse(next_word(line), e.bytes)) return std::nullopt;
  e.sha256 = next_word(line);
  if (e.sha256.size() != 64 || e.sha256.find_first_not_of("0123456789abcdef") != std::string::npos) return std::nullopt;
  const auto* status = std::ranges::find(kStatuses, next_word(line));
  const std::string_view health = next_word(line);
  if (status == std::end(kStatuses) || (health != "finite" && health != "non-finite")) return std::nullopt;
  e.status = static_cast<CheckpointStatus>(status - kStatuses);
  e.finite = health == "finite";
  std::string_view score = next_word(line);
  if (score != "-") {
    e.score = Score{.higher_is_better = score.starts_with(kHigher)};
    if (e.score->higher_is_better) score.remove_prefix(kHigher.size());
    if (!parse(score, e.score->value) || !std::isfinite(e.score->value)) return std::nullopt;
  }
  if (!line.empty()) return std::nullopt;
  return e;
}

}  // namespace

std::string_view direction_of(const Score& score) {
  return score.higher_is_better ? "higher is better" : "lower is better";
}

std::vector<std::size_t> best_first(const std::vector<ManifestEntry>& entries) {
  const auto newest = std::ranges::find_if(entries.rbegin(), entries.rend(),
                                           [](const ManifestEntry& e) { return e.score.has_value(); });
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (entries[i].score && entries[i].score->higher_is_better == newest->score->higher_is_better) order.push_back(i);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return entries[a].score->better_than(*entries[b].score);
  });
  return order;
}

std::string_view name_of(CheckpointStatus status) { return kStatuses[static_cast<std::size_t>(status)]; }

std::string to_text(const Manifest& manifest) {
  std::string text = sealed(
      fmt::format("{}entries {} trouble {}", kHead, manifest.entries.size(), manifest.last_trouble));
  for (const ManifestEntry& e : manifest.entries)
    text += sealed(fmt::format("{} {} {} {} {} {} {}", e.step, e.file, e.bytes, e.sha256, name_of(e.status),
                               e.finite ? "finite" : "non-finite", score_text(e.score)));
  return text;
}

ManifestReading manifest_from(std::string_view text) {
  ManifestReading reading;
  std::size_t wanted = 0;
  bool head = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    std::optional<std::string_view> body = end == std::string_view::npos ? std::nullopt : unsealed(line);
    if (body && !head && body->starts_with(kHead)) {
      std::string_view rest = body->substr(kHead.size());
      head = next_word(rest) == "entries" && parse(next_word(rest), wanted) && next_word(rest) == "trouble" &&
             parse(next_word(rest), reading.manifest.last_trouble);
      continue;
    }
    if (std::optional<ManifestEntry> entry = body ? entry_from(*body) : std::nullopt)
      reading.manifest.entries.push_back(std::move(*entry));
    else
      reading.whole = false;
  }
  auto& entries = reading.manifest.entries;
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  const auto twice = std::unique(entries.begin(), entries.end(),
                                 [](const auto& a, const auto& b) { return a.step == b.step; });
  if (twice != entries.end()) reading.whole = false;
  entries.erase(twice, entries.end());
  reading.whole = reading.whole && head && entries.size() == wanted;
  return reading;
}

}  // namespace binade::io
