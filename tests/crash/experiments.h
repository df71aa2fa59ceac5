#pragma once

#include "tests/lab/lab.h"

namespace binade::crash {

using lab::Assignment;
using lab::Draws;
using lab::Experiment;
using lab::Findings;
using lab::Scratch;

void power_loss(const Assignment&, Findings&);
void damage(const Assignment&, Findings&);
void kills(const Assignment&, Findings&);
void stops(const Assignment&, Findings&);
void failing_calls(const Assignment&, Findings&);
void failing_allocations(const Assignment&, Findings&);
void seeded_bugs(const Assignment&, Findings&);

/// Part of seeded_bugs(): training programs that lie about their checkpoints, which `kills` must notice.
void seeded_lies(std::uint64_t seed, Findings&);
/// Part of failing_allocations(): whole training programs, `runs` of which a failing allocation ends.
void starve_programs(std::uint64_t seed, std::int64_t runs, Findings&);

}  // namespace binade::crash
