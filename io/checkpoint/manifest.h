#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace binade::io {

inline constexpr const char* kManifestName = "MANIFEST";
inline constexpr std::uint64_t kManifestLimit = 16u << 20;  ///< largest size in bytes of MANIFEST that is read

/// How far a checkpoint is trusted: written to disk; read back and verified; followed by enough steps without incident.
enum class CheckpointStatus : std::uint8_t { kCommitted, kVerified, kGood };
std::string_view name_of(CheckpointStatus status);

/// The score of an evaluation.
struct Score {
  double value = 0;
  bool higher_is_better = false;

  /// True if this score is the better one; false if the two have different directions.
  bool better_than(const Score& other) const {
    if (higher_is_better != other.higher_is_better) return false;
    return higher_is_better ? value > other.value : value < other.value;
  }
  bool operator==(const Score&) const = default;
};

/// Returns "higher is better" or "lower is better".
std::string_view direction_of(const Score& score);

struct ManifestEntry {
  std::int64_t step = 0;
  std::string file{};
  std::uint64_t bytes = 0;
  std::string sha256{};  ///< SHA-256 of the whole file, 64 hex digits
  CheckpointStatus status = CheckpointStatus::kCommitted;
  bool finite = true;            ///< true if all numbers in the file are finite
  std::optional<Score> score{};  ///< score of the evaluation at this step
};

/// Returns the indices of the entries with a score, best first, of equal scores the earlier first. If a run changed the
/// direction of its score, only entries with the direction of the newest score count.
std::vector<std::size_t> best_first(const std::vector<ManifestEntry>& entries);

/// The index file of a folder of checkpoints: one line per checkpoint, the step of the last incident in the first line,
/// a CRC-32C at the end of every line. The files are authoritative: entries are checked against them, and a lost
/// MANIFEST is rebuilt from them.
struct Manifest {
  std::vector<ManifestEntry> entries{};  ///< ascending by step
  std::int64_t last_trouble = 0;         ///< step of the last incident; 0: none
};

std::string to_text(const Manifest& manifest);

struct ManifestReading {
  Manifest manifest{};
  bool whole = true;  ///< false if lines are missing or damaged; the intact ones are in `manifest`
};
ManifestReading manifest_from(std::string_view text);

}  // namespace binade::io
