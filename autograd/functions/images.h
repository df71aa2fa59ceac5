#pragma once

#include <cstdint>

#include "binade/autograd/variable.h"
#include "binade/core/ops/extent2.h"
#include "binade/core/ops/extent3.h"

/// Functions of images (N, H, W, C) that are composed of ops. Results have the dtype of x; gradients are those of
/// the ops. pool.h has pooling with windows of one size.
namespace binade {

/// Moves channels to positions: x (N, H, W, C r r) -> (N, H r, W r, C), y[n, h r + i, w r + j, c] = x[n, h, w, (c r +
/// i) r + j] (Shi et al., 2016). The order of channels is PyTorch's. Throws ShapeError unless the number of
/// channels of x is a multiple of r r.
Variable pixel_shuffle(const Variable& x, std::int64_t factor);
/// The inverse of pixel_shuffle(): x (N, H r, W r, C) -> (N, H, W, C r r).
Variable pixel_unshuffle(const Variable& x, std::int64_t factor);

/// Interleaves the groups of channels of x (…, C): channel c of group g becomes channel g of group c (Zhang et al.,
/// "ShuffleNet", 2018). Throws ArgumentError unless `groups` is at least 1, ShapeError if it does not divide C.
Variable channel_shuffle(const Variable& x, std::int64_t groups);

/// Average or maximum over windows that divide an image into size.y x size.x parts of about the same size: part i of m
/// along an axis of extent n has the positions from floor(i n / m) up to ceil((i + 1) n / m), as in PyTorch. Size 0
/// keeps the extent, and size 1 pools the whole image. If m divides n, this is avg_pool2d() or max_pool2d(). Otherwise
/// the windows, which overlap, are copied and reduced; their positions are computed on the host, so that a step on a
/// GPU waits for a copy and cannot be captured. The gradient of a maximum goes to the first of equal
/// elements. Throws ShapeError for an empty image, ArgumentError unless sizes are in [0, 65536].
Variable adaptive_avg_pool2d(const Variable& x, Extent2 size);
Variable adaptive_max_pool2d(const Variable& x, Extent2 size);
/// The same for sequences (N, L, C) and for volumes (N, D, H, W, C).
Variable adaptive_avg_pool1d(const Variable& x, std::int64_t size);
Variable adaptive_max_pool1d(const Variable& x, std::int64_t size);
Variable adaptive_avg_pool3d(const Variable& x, Extent3 size);
Variable adaptive_max_pool3d(const Variable& x, Extent3 size);

/// Divides each element of x (…, C) by a power of the mean square of its neighboring channels (Krizhevsky et al.,
/// 2012): y_c = x_c / (k + alpha / size sum of x_d^2)^beta for d from c - size / 2 to c + (size - 1) / 2, where
/// channels outside of x count as 0. Computed in f32 (f64 for f64). Throws ArgumentError unless size is in [1, 65536].
Variable local_response_norm(const Variable& x, std::int64_t size, double alpha = 1e-4, double beta = 0.75,
                             double k = 1);

}  // namespace binade
