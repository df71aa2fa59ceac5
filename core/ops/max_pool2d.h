#pragma once

#include "binade/core/ops/extent2.h"
#include "binade/core/ops/op.h"

namespace binade::ops {

/// Computes the maximum over each window of an image: x (N, H, W, C) -> y (N, OH, OW, C) in x's dtype, with OH =
/// floor((H + 2 padding - kernel) / stride) + 1 and OW likewise. Pixels outside the image are ignored.
///
/// The maximum of a window that contains NaN is NaN. Backward adds the gy of each window to gx at the pixel with the
/// maximum (the first of equal ones), in the order of the windows. x may be a channel slice. Saves the position of the
/// maximum (u8, or i32 for kernels of more than 256 pixels). Throws ShapeError unless x has rank 4, kernel and stride
/// >= 1, 0 <= padding <= kernel / 2, and the output has pixels.
struct MaxPool2d {
  struct Params {
    Extent2 kernel = 2;
    Extent2 stride = 2;
    Extent2 padding = 0;
  };
  static constexpr OpInfo info{.name = "max_pool2d",
                               .inputs = "x",
                               .numerics = {.ulp_f32 = 0, .ulp_half = 0},
                               .observed = Observed::kByKernels,
                               .slices = true,
                               .range = ranges::within};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// Computes max_pool2d, and for each maximum its position in the window: h kernel.x + w, u8 or i32 (as above). The
/// positions have no gradient.
struct MaxPool2dIndices {
  using Params = MaxPool2d::Params;
  static constexpr OpInfo info{.name = "max_pool2d_indices",
                               .inputs = "x",
                               .numerics = {.ulp_f32 = 0, .ulp_half = 0},
                               .observed = Observed::kByKernels,
                               .slices = true,
                               .range = ranges::within};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// Returns the extent of a pooled dimension. Throws ShapeError with the op's name if it is empty.
std::int64_t pooled_extent(const OpInfo& info, const char* dimension, std::int64_t extent, std::int64_t kernel,
                           std::int64_t stride, std::int64_t padding);

}  // namespace binade::ops
