#include "tests/truth/scenario.h"

#include <algorithm>

namespace binade::truth {

std::vector<Scenario> scenarios() {
  std::vector<Scenario> all;
  for (const auto& family : {singularity_faults(), rounding_faults(), overflow_faults(), mask_faults(), sample_faults(),
                             norm_faults(), state_faults(), update_faults(), user_op_faults()})
    all.insert(all.end(), family.begin(), family.end());
  return all;
}

std::vector<std::int64_t> some_rows(const Batch& batch, Draw& draw) {
  std::vector<std::int64_t> rows{draw.below(batch.samples())};
  if (draw.chance(0.15)) {
    const std::int64_t other = draw.below(batch.samples());
    if (other != rows[0]) rows.push_back(other);
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

void set_gates(Session& session, Batch& batch, std::span<const std::int64_t> rows, double value) {
  for (const std::int64_t row : rows)
    session.damage_sample(batch, row, [value](Batch& b, std::int64_t r) {
      set_sample(b, "gate", r, value);
      set_sample(b, "gate_out", r, value);
    });
}

}  // namespace binade::truth
