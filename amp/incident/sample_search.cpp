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

Rows SampleSearch::find(const std::vector<Rows>& suspects) const {
  constexpr std::size_t kMostSuspects = 3;
  if (all_.size() < 2) return {};
  std::vector<Rows> sets;
  for (const Rows& rows : suspects)
    if (!rows.empty() && rows.size() <= all_.size() / 2 &&
        std::ranges::all_of(rows, [&](std::int64_t row) { return std::ranges::find(all_, row) != all_.end(); }))
      sets.push_back(rows);
  std::ranges::stable_sort(sets, {}, &Rows::size);
  if (sets.size() > kMostSuspects) sets.resize(kMostSuspects);
  for (const Rows& rows : sets)
    if (finite_without_(rows)) return smallest_of(rows, {});

  const auto [first, second] = halves_of(all_);
  if (finite_without_(first)) return smallest_of(first, {});
  if (finite_without_(second)) return smallest_of(second, {});
  if (all_.size() < 4 || !some_row_is_finite()) return {};
  const Rows of_first = smallest_of(first, second), found = united(of_first, smallest_of(second, of_first));
  return found.size() <= all_.size() / 2 && finite_without_(found) ? found : Rows{};
}

/// Returns the smallest part of `rows` without which, and without `others`, the step is finite. REQUIRES that it is
/// finite without all of them.
Rows SampleSearch::smallest_of(const Rows& rows, const Rows& others) const {
  if (rows.size() < 2) return rows;
  const auto [first, second] = halves_of(rows);
  if (finite_without_(united(first, others))) return smallest_of(first, others);
  if (finite_without_(united(second, others))) return smallest_of(second, others);
  const Rows of_first = smallest_of(first, united(second, others));
  return united(of_first, smallest_of(second, united(of_first, others)));
}

/// Tells whether any row is without blame: if the step fails with either of two rows alone, samples are not the cause.
bool SampleSearch::some_row_is_finite() const {
  for (const std::int64_t kept : {all_.front(), all_.back()}) {
    Rows others = all_;
    std::erase(others, kept);
    if (finite_without_(others)) return true;
  }
  return false;
}

}  // namespace binade::amp
