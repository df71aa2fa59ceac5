#include "binade/amp/incident/sample_search.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace binade::amp {
namespace {

using Rows = SampleSearch::Rows;

std::pair<Rows, Rows> halves_of(const Rows& rows) {
  const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(rows.size() / 2);
  return {Rows(rows.begin(), middle), Rows(middle, rows.end())};
}

Rows united(const Rows& a, const Rows& b) {
  Rows rows = a;
  rows.insert(rows.end(), b.begin(), b.end());
  std::ranges::sort(rows);
  return rows;
}

}  // namespace

bool SampleSearch::is_finite_without(const Rows& rows) {
  if (is_exhausted_) return false;
  const std::optional<bool> finite = finite_without_(rows);
  is_exhausted_ = !finite;
  return finite.value_or(false);
}

Rows SampleSearch::find(const std::vector<Rows>& suspects) {
  Rows found = search(suspects);
  if (is_exhausted_) found.clear();
  return found;
}

Rows SampleSearch::search(const std::vector<Rows>& suspects) {
  constexpr std::size_t kMostSuspects = 3;
  if (all_.size() < 2) return {};
  std::vector<Rows> sets;
  for (const Rows& rows : suspects)
    if (!rows.empty() && rows.size() <= all_.size() / 2 &&
        std::ranges::all_of(rows, [&](std::int64_t row) { return std::ranges::find(all_, row) != all_.end(); }))
      sets.push_back(rows);
  if (sets.size() > kMostSuspects) sets.resize(kMostSuspects);
  for (const Rows& rows : sets)
    if (is_finite_without(rows)) return smallest_cause_in(rows, {});

  const auto [first, second] = halves_of(all_);
  if (is_finite_without(first)) return smallest_cause_in(first, {});
  if (is_finite_without(second)) return smallest_cause_in(second, {});
  if (all_.size() < 4 || !some_row_is_finite()) return {};
  const Rows of_first = smallest_cause_in(first, second), found = united(of_first, smallest_cause_in(second, of_first));
  return found.size() <= all_.size() / 2 && is_finite_without(found) ? found : Rows{};
}

/// Returns the smallest part of `rows` such that the step is finite without this part and without `others`. REQUIRES
/// that the step is finite without all of `rows` and `others`.
Rows SampleSearch::smallest_cause_in(const Rows& rows, const Rows& others) {
  if (rows.size() < 2) return rows;
  const auto [first, second] = halves_of(rows);
  if (is_finite_without(united(first, others))) return smallest_cause_in(first, others);
  if (is_finite_without(united(second, others))) return smallest_cause_in(second, others);
  const Rows of_first = smallest_cause_in(first, united(second, others));
  return united(of_first, smallest_cause_in(second, united(of_first, others)));
}

/// Returns true if the step is finite with one of two rows alone. If it fails with each of them, samples are not the
/// cause.
bool SampleSearch::some_row_is_finite() {
  for (const std::int64_t kept : {all_.front(), all_.back()}) {
    Rows others = all_;
    std::erase(others, kept);
    if (is_finite_without(others)) return true;
  }
  return false;
}

}  // namespace binade::amp
