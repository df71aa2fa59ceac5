#pragma once

#include "binade/autograd/functions/losses.h"

/// Makes the losses of autograd/functions/losses.h available in namespace nn as well. Losses have no state, so they are
/// functions and not modules.
namespace binade::nn {

using binade::Reduction;

using binade::bce;
using binade::bce_with_logits;
using binade::cosine_embedding;
using binade::cosine_similarity;
using binade::cross_entropy;
using binade::ctc;
using binade::dice;
using binade::dice_cross_entropy;
using binade::focal;
using binade::gaussian_nll;
using binade::hinge_embedding;
using binade::huber;
using binade::kl_div;
using binade::l1;
using binade::margin_ranking;
using binade::mse;
using binade::multi_margin;
using binade::multiclass_dice;
using binade::multilabel_margin;
using binade::multilabel_soft_margin;
using binade::nll;
using binade::pairwise_distance;
using binade::poisson_nll;
using binade::smooth_l1;
using binade::soft_margin;
using binade::triplet_margin;
using binade::triplet_margin_with_distance;
using binade::tversky;

}  // namespace binade::nn
