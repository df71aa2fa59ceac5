#pragma once

#include "examples/transformer/gpt.h"

namespace binade::examples {

/// The loss of a step on two tokens: what it records is what a training step records.
Variable probe_loss(Gpt& model);

}  // namespace binade::examples
