#pragma once

#include "tests/faults/run.h"

namespace binade::faults {

/// The card's place and sample as text.
std::string in_words(const Card& card);

/// Compares the diagnosis of a run with the card of the planted fault. `control`: final loss of the run without the
/// fault.
Score compare(const Card& card, const Run& run, double control);

}  // namespace binade::faults
