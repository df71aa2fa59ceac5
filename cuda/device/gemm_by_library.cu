#include <string>

#include "binade/cuda/device/libraries.cuh"
#include "binade/cuda/device/products.cuh"

/// Products by a library. Binade's kernels do the steps that the library lacks: it observes no values, supports only a
/// bias of the result's dtype, turns NaN into 0 in its ReLU, and has only the tanh form of GELU.
namespace binade::cuda {
namespace {

/// f32 sums that are then rounded to 16 bits are computed in panels of rows of this size, which stay in the L2 cache
/// until they are read again.
constexpr std::int64_t kPanelBytes = std::int64_t{32} << 20;
constexpr std::int64_t kPanelRows = 256;  // a multiple of the rows of every tile of cuBLASLt

/// Returns the product of `g` without its activation.
GemmArgs only_sums(const GemmArgs& g) {
  GemmArgs sums = g;
  sums.activation = Activation::kNone;
  sums.pre_activation = nullptr;
  return sums;
}

void* offset_by(void* data, DType dtype, std::int64_t elements) {
  return data == nullptr ? nullptr : static_cast<char*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}
const void* offset_by(const void* data, DType dtype, std::int64_t elements) {
  return offset_by(const_cast<void*>(data), dtype, elements);
}

/// Returns true if there is no bias, or if the library can add it: the bias must have the result's dtype. The library
/// cannot add an f32 bias to f32 results of 8-bit products.
bool library_adds_bias(const GemmArgs& g) {
  if (g.bias == nullptr) return true;
  return g.out == DType::f32 ? g.in != DType::u8 : g.low_bias;
}

void note_fallback(const GemmArgs& g, const char* what, const char* instead) {
  if (plan_gate().is_active()) return;  // the gate, not the library, may have refused the product
  add_note_once("product " + std::to_string(g.m) + " x " + std::to_string(g.n) + " x " + std::to_string(g.k) +
                ": the library has no form for it with " + what + ": " + instead);
}

/// Lets the library add the bias and apply GELU; returns false if it cannot. Requests z, the input of GELU, even if the
/// caller does not want it: without z the library would use another algorithm, and y must not depend on whether
/// backward needs z (recompute, evaluation).
bool gelu_by_library(const GemmArgs& g) {
  const Buffer<std::uint16_t> unwanted(g.pre_activation == nullptr ? g.m * g.c_row : 0);
  GemmArgs whole = g;
  if (g.pre_activation == nullptr) whole.pre_activation = unwanted.data();
  if (!library_gemm(whole)) return false;
  Finish finish = finish_of(g);
  if (g.pre_activation != nullptr)
    finish.y.data = g.pre_activation;  // z is observed instead of y, since |GELU(z)| <= |z|
  observe_products(finish, 1, g.m, g.n);
  return true;
}

/// Lets the library store the sums in the result's dtype, with the bias if it can add it; Binade's kernel then replaces
/// the sums by the results. Returns false if the library cannot compute the sums. In 16 bits, the activation is applied
/// to the rounded sum. For ReLU this gives the same result; for GELU the error stays within the bound for GPUs.
bool finish_in_place(const GemmArgs& g) {
  GemmArgs sums = only_sums(g);
  if (g.pre_activation != nullptr) sums.c = g.pre_activation;
  if (!library_adds_bias(g)) sums.bias = nullptr;
  if (!library_gemm(sums)) return false;
  Finish finish = finish_of(g);
  if (library_adds_bias(g)) {
    finish.bias = {};
    finish.sums_are_kept = g.pre_activation != nullptr;
    finish.z = nullptr;
  }
  finish_sums(finish, {.from = {sums.c, g.out}, .row = g.c_row, .batch = {}}, 1, g.m, g.n);
  return true;
}

/// Lets the library compute f32 sums, from which Binade's kernel computes the results; returns false if it cannot.
/// Supports any bias and any activation.
bool finish_in_panels(const GemmArgs& g) {
  const std::int64_t panels = ceil_div(g.m * g.n * static_cast<std::int64_t>(sizeof(float)), kPanelBytes);
  const std::int64_t most = ceil_div(ceil_div(g.m, panels), kPanelRows) * kPanelRows;
  const Buffer<float> buffer((most < g.m ? most : g.m) * g.n);
  for (std::int64_t first = 0; first < g.m; first += most) {
    const std::int64_t rows = first + most < g.m ? most : g.m - first;
    GemmArgs sums = only_sums(g);
    sums.m = rows;
    sums.a = offset_by(g.a, g.in, first * g.a_row);
    sums.bias = nullptr;
    sums.c = buffer.data();
    sums.c_row = g.n;
    sums.out = DType::f32;
    if (!library_gemm(sums)) return false;
    Finish finish = finish_of(g);
    finish.y.data = offset_by(g.c, g.out, first * g.c_row);
    finish.z = offset_by(g.pre_activation, g.out, first * g.c_row);
    finish_sums(finish, {.from = {buffer.data(), DType::f32}, .row = g.n, .batch = {}}, 1, rows, g.n);
  }
  return true;
}

}  // namespace

bool gemm_by_library(const GemmArgs& g) {
  if (g.derivative_of != Activation::kNone) {
    if (!library_gemm(g)) {
      note_fallback(g, "an activation derivative", "a pass of its own");
      return false;
    }
    observe_products(finish_of(g), 1, g.m, g.n);
    return true;
  }
  const bool sums_only = g.activation == Activation::kNone && g.pre_activation == nullptr;
  const bool nothing_left = sums_only && library_adds_bias(g);
  if (nothing_left) {
    Finish finish = finish_of(g);
    if (!evenly_spaced(g.c_offsets, g.batch, finish.batch.stride)) return false;
    if (library_gemm(g)) {
      observe_products(finish, g.batch, g.m, g.n);
      return true;
    }
    if (g.bias == nullptr) return false;
  }
  if (g.batch != 1 || g.c_offsets != nullptr)
    return false;  // products of layers are not batched, and batched products have no bias
  if (is_half(g.out) && !library_adds_bias(g)) return finish_in_panels(g);
  if (g.activation == Activation::kGeluTanh && is_half(g.out) && gelu_is_fused(context().capability)) {
    if (gelu_by_library(g)) return true;
    note_fallback(g, "a GELU", "a pass of its own");
  }
  if (!nothing_left && finish_in_place(g)) return true;
  if (g.bias == nullptr || !finish_in_panels(g)) return false;
  note_fallback(g, "a bias", "sums in f32 and a pass of its own");
  return true;
}

}  // namespace binade::cuda
