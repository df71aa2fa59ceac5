#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/faults/run.h"

namespace binade::faults {

/// `right` of `of` cases.
struct Share {
  std::int64_t of = 0, right = 0;
  void count(bool good) { ++of, right += good ? 1 : 0; }
  double percent() const { return of > 0 ? 100.0 * static_cast<double>(right) / static_cast<double>(of) : 100.0; }
};

/// Sums over the scores of one family, or of all.
struct Totals {
  std::int64_t cases = 0;
  Share place{}, sample{}, cause{}, hash{}, remedy{}, recovered{};
  Share controls{};                   ///< cases without a fault and without an incident
  std::int64_t wrong_but_proven = 0;  ///< diagnoses called proven with a wrong place or cause
  std::vector<double> replays{}, seconds{};

  void count(const Score& score);
};
double median(std::vector<double> values);

Totals total_of(const std::vector<Score>& scores);

/// A row per family, the totals, the confusion matrix of causes, and a line for each case that was not diagnosed right.
std::string text_table(const std::vector<Score>& scores);
/// Every case with its card and its diagnosis, as JSON.
std::string json_table(const std::vector<Score>& scores, std::uint64_t seed);

}  // namespace binade::faults
