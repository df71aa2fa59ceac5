#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace binade::amp {

/// Finds the samples that make a step non-finite, by replays without some of its rows. The step is finite without the
/// rows that find() returns; leaving out only a part of them does not suffice.
class SampleSearch {
 public:
  using Rows = std::vector<std::int64_t>;
  /// Returns true if the step is finite without these rows; std::nullopt if no further replay is allowed.
  using FiniteWithout = std::function<std::optional<bool>(const Rows& rows)>;

  SampleSearch(Rows all, FiniteWithout finite_without)
      : all_(std::move(all)), finite_without_(std::move(finite_without)) {}

  /// `suspects`: sets of rows to try first. Returns the rows that cause the fault. Returns an empty set if there are
  /// none, if they are more than half of all rows, or if the replays did not suffice.
  Rows find(const std::vector<Rows>& suspects);

 private:
  bool is_finite_without(const Rows& rows);
  Rows search(const std::vector<Rows>& suspects);
  Rows smallest_cause_in(const Rows& rows, const Rows& others);
  bool some_row_is_finite();

  Rows all_;  // the rows of the step
  FiniteWithout finite_without_;
  bool is_exhausted_ = false;  // true if no further replay is allowed
};

}  // namespace binade::amp
