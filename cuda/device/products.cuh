#pragma once

#include "binade/core/kernels/gemm.h"
#include "binade/core/math.h"
#include "binade/cuda/device/amax_observer.cuh"
#include "binade/cuda/device/value.cuh"
#include "binade/cuda/rules.h"

/// Code that the files of the products share: the positions of a batch's results in memory, and the computation of a
/// result from a sum.
namespace binade::cuda {

/// Product i of a batch begins at element offsets[i] (in device memory), or at i * stride if offsets is null.
struct BatchOffsets {
  std::int64_t stride = 0;
  const std::int64_t* offsets = nullptr;
  __device__ std::int64_t at(std::int64_t i) const { return offsets != nullptr ? offsets[i] : i * stride; }
};

/// The last part of a product: y = round(activation(sum + bias)) and z = round(sum + bias), or y += sum. y and z each
/// round the unrounded sum once, except that in 16 bits a GELU is computed from z (docs/decisions/0037).
struct Finish {
  Out y;
  void* z = nullptr;     ///< has the layout and the dtype of y; null: z is not stored
  std::int64_t row = 0;  ///< elements between rows of y
  BatchOffsets batch;    ///< positions of the products of a batch in y
  In bias{};             ///< null: none
  Activation activation = Activation::kNone;
  bool accumulate = false;         ///< adds the sum to y
  bool sums_are_kept = false;      ///< z contains the sums already; they are observed, but not stored again
  std::uint32_t* words = nullptr;  ///< two device words for observed maxima; null: results are not observed
};

/// Returns the Finish of a product, without the batch's offsets: only the caller knows whether they are evenly spaced.
inline Finish finish_of(const GemmArgs& g) {
  return {.y = {g.c, g.out},
          .z = g.pre_activation,
          .row = g.c_row,
          .batch = {},
          .bias = {g.bias, g.low_bias           ? g.out
                           : g.in == DType::f64 ? DType::f64
                                                : DType::f32},
          .activation = g.activation,
          .accumulate = g.accumulate,
          .words = g.partial ? nullptr : context().amax_words};
}

/// Sums (batch, m, n) that finish_sums() completes. Each sum is the total of `chunks` values that are `chunk` elements
/// apart, added in order. The values are f32 (f64 for f64) or, if there is a single chunk, of any floating dtype.
struct Sums {
  In from;
  std::int64_t row = 0;  ///< elements between rows
  BatchOffsets batch;
  std::int64_t chunks = 1, chunk = 0;  ///< number of values per sum; elements between them
};

/// Computes a product by the kernel of gemm.cu, for any shape and layout.
void own_gemm(const GemmArgs& g);
/// Computes a product of codes (GemmArgs with `in` u8) by `multiply`, in bf16.
void gemm_in_bf16_of_codes(const GemmArgs& g, void (*multiply)(const GemmArgs&));
/// Computes a product by a library, and the steps that the library cannot do by Binade's kernels. Returns false if no
/// library can compute it.
bool gemm_by_library(const GemmArgs& g);
/// Computes the results of a product from its sums.
void finish_sums(const Finish& f, const Sums& sums, std::int64_t batch, std::int64_t m, std::int64_t n);
/// Observes results that a library has stored.
void observe_products(const Finish& f, std::int64_t batch, std::int64_t m, std::int64_t n);

/// Returns activation(x); NaN stays NaN.
template <class C>
__device__ __forceinline__ C activated(Activation activation, C x) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kRelu: return x <= C(0) ? C(0) : x;  // NaN passes
    case Activation::kGelu: return math::gelu(x);
    case Activation::kGeluTanh: return math::gelu_tanh(x);
  }
  return x;
}

/// Returns true if y is the activation of z (the rounded sum), not of the sum.
__device__ __forceinline__ bool activates_rounded_sum(const Finish& f) {
  return (f.y.dtype == DType::f16 || f.y.dtype == DType::bf16) &&
         (f.activation == Activation::kGelu || f.activation == Activation::kGeluTanh);
}
/// Returns the value that z gets for a sum, if y is computed from z. A finite sum below the range becomes the lowest
/// finite value.
template <class C>
__device__ __forceinline__ C as_z(DType half, C sum) {
  const bool f16 = half == DType::f16;
  const float lowest = f16 ? -65504.0f : -0x1.fep127f, x = static_cast<float>(sum);
  const float held = x < lowest && x >= -0x1.fffffep127f ? lowest : x;
  return static_cast<C>(f16 ? widened(narrowed<float16>(held)) : widened(narrowed<bfloat16>(held)));
}

/// Computes the results of one sum. `at` is the index of the result in y.
template <class C>
__device__ __forceinline__ void finish_one(const Finish& f, std::int64_t at, std::int64_t column, C sum,
                                           AmaxObserver& amax) {
  if (f.bias.data != nullptr) sum += load_at<C>(f.bias, column);
  // Observes the sum as well, so that an infinity is noticed even if the activation makes it finite.
  const bool activates_rounded = activates_rounded_sum(f);
  if (f.z != nullptr || f.sums_are_kept || activates_rounded) amax.add(sum);
  if (activates_rounded) sum = as_z(f.y.dtype, sum);
  if (f.z != nullptr) store_at(f.z, f.y.dtype, at, sum);
  if (f.accumulate) sum += load_at<C>(f.y.data, f.y.dtype, at);
  const C y = activated(f.activation, sum);
  if (!activates_rounded) amax.add(y);  // a GELU's result is never larger than its input, which was observed
  store_at(f.y.data, f.y.dtype, at, y);
}

}  // namespace binade::cuda
