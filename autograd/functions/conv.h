#pragma once

#include "binade/autograd/variable.h"
#include "binade/core/ops/conv2d.h"
#include "binade/core/ops/conv_transpose2d.h"

namespace binade {

/// Convolution of x (N, H, W, C) with w (K, R, S, C / groups); the bias is optional: see ops::Conv2d.
Variable conv2d(const Variable& x, const Variable& w, const Variable& bias = {},
                const ops::Conv2d::Params& params = {});

/// Transposed convolution of x (N, H, W, C) with w (C, R, S, K / groups): see ops::ConvTranspose2d.
Variable conv_transpose2d(const Variable& x, const Variable& w, const Variable& bias = {},
                          const ops::ConvTranspose2d::Params& params = {});

}  // namespace binade
