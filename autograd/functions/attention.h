#pragma once

#include "binade/autograd/variable.h"
#include "binade/core/ops/attention.h"

namespace binade {

/// Attention of q (B, T, H, D) on k, v (B, S, G, D), or of (B, T, H D) on (B, S, G D) with `heads` set; the mask is
/// optional: see ops::Attention.
Variable attention(const Variable& q, const Variable& k, const Variable& v, const ops::Attention::Params& params = {},
                   const Variable& mask = {});

}  // namespace binade
