#pragma once

#include "binade/autograd/functions/losses.h"

/// Makes the losses of autograd/functions/losses.h available in namespace nn as well.
namespace binade::nn {

using binade::bce;
using binade::bce_with_logits;
using binade::cross_entropy;
using binade::dice;
using binade::huber;
using binade::kl_div;
using binade::l1;
using binade::mse;

}  // namespace binade::nn
