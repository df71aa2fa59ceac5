#include <algorithm>

#include "binade/io/checkpoint/store.h"

namespace binade::io {

std::vector<bool> kept_by_ring(const std::vector<ManifestEntry>& entries, int keep) {
  const std::size_t count = entries.size();
  const auto ring = static_cast<std::size_t>(keep);
  std::vector<bool> kept(count, false);
  std::optional<std::size_t> good, candidate;
  for (std::size_t i = 0; i < count; ++i) {
    const ManifestEntry& e = entries[i];
    kept[i] = i + ring >= count;
    if (e.status == CheckpointStatus::kGood) {
      good = i;
      candidate.reset();
    } else if (e.status == CheckpointStatus::kVerified && !candidate) {
      candidate = i;
    }
  }
  for (const std::optional<std::size_t>& pinned : {good, candidate})
    if (pinned) kept[*pinned] = true;
  if (const std::vector<std::size_t> best = best_first(entries); !best.empty()) kept[best.front()] = true;
  return kept;
}

}  // namespace binade::io
