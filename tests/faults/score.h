#pragma once

#include "tests/faults/run.h"

namespace binade::faults {

/// The card's place and sample as text.
std::string in_words(const Card& card);

/// Judges a run against the card of what was planted in it; `control`: the final loss of the unharmed run.
Score compare(const Card& card, const Run& run, double control);

}  // namespace binade::faults
