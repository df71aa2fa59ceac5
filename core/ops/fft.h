#pragma once

#include "binade/core/kernels/fft.h"
#include "binade/core/ops/op.h"

namespace binade::ops {

/// A discrete Fourier transform of length `n` along one axis (formulas: FftArgs). Binade has no complex dtype: a
/// complex tensor has a last axis of extent 2, for real and imaginary parts, and `axis` refers to the axes before it.
/// If x has fewer positions than the transform reads, the missing ones count as 0; if it has more, the rest is ignored.
/// y has `count` positions; those beyond the transform are 0. Computed in double on a CPU and rounded once; on a GPU in
/// f32 (f64 for f64). f16 and bf16 give f32.
///
/// The op is linear; its gradient is the op with params adjoint(). Saves nothing. Throws ShapeError unless x, if
/// complex, ends with an axis of extent 2; DTypeError unless it is floating; ArgumentError for a bad axis or an n
/// outside [1, 2^30].
struct Fft {
  struct Params {
    FftKind kind = FftKind::kComplex;
    bool inverse = false;
    int axis = -1;
    std::int64_t n = 1, count = 1;
    double scale = 1, interior = 1;
    const char* name = "fft";  ///< the function that the user called, for errors

    /// Returns the params that compute the gradient of an input with `extent` positions.
    Params adjoint(std::int64_t extent) const;
  };
  static constexpr OpInfo info{
      .name = "fft", .inputs = "x", .precision = PrecisionClass::kFull, .numerics = {.ulp_f32 = 4}};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
  /// Returns the axis counted from the front. Throws ShapeError, DTypeError or ArgumentError.
  static int checked(const Shape& x, DType dtype, const Params& p);
};

}  // namespace binade::ops
