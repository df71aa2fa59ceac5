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

/// Part of seeded_bugs(): runs training programs that use checkpoints wrongly; `kills` must detect the bug.
void seeded_training_bugs(std::uint64_t seed, Findings&);
/// Part of failing_allocations(): runs whole training programs, each with an allocation that fails, until `runs` of
/// them have ended because of it.
void starve_programs(std::uint64_t seed, std::int64_t runs, Findings&);

}  // namespace binade::crash
