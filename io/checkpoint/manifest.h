#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace binade::io {

inline constexpr const char* kManifestName = "MANIFEST";    ///< name of the file in checkpoints/
inline constexpr std::uint64_t kManifestLimit = 16u << 20;  ///< largest size in bytes of MANIFEST that is read

/// The degree to which a checkpoint is trusted. kCommitted: written to disk; kVerified: read back and compared; kGood:
/// verified and followed by enough steps without an incident.
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

/// The line of MANIFEST about one checkpoint.
struct ManifestEntry {
  std::int64_t step = 0;
  std::string file{};       ///< file name
  std::uint64_t bytes = 0;  ///< size of the file
  std::string sha256{};     ///< SHA-256 of the whole file, 64 hex digits
  CheckpointStatus status = CheckpointStatus::kCommitted;
  bool finite = true;            ///< true if all numbers in the file are finite
  std::optional<Score> score{};  ///< score of the evaluation at this step
};

/// Returns the indices of the entries with a score, the best first; of equal scores, the earlier entry first. If a run
/// changed the direction of its score, only entries with the direction of the newest score count.
std::vector<std::size_t> best_first(const std::vector<ManifestEntry>& entries);

/// The index file of a folder of checkpoints: one line per checkpoint, the step of the last incident in the first line,
/// and a CRC-32C at the end of every line. Entries are checked against the checkpoint files, and a lost MANIFEST is
/// rebuilt from them.
struct Manifest {
  std::vector<ManifestEntry> entries{};  ///< ascending by step
  std::int64_t last_trouble = 0;         ///< step of the last incident; 0: none
};

/// Returns the text of a MANIFEST file.
std::string to_text(const Manifest& manifest);

/// The result of reading a MANIFEST.
struct ManifestReading {
  Manifest manifest{};
  bool whole = true;  ///< false if lines are missing or damaged; the intact ones are in `manifest`
};
/// Parses the text of a MANIFEST file.
ManifestReading manifest_from(std::string_view text);

}  // namespace binade::io
