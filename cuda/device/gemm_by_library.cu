#include "cuda/device/libraries.cuh"
#include "cuda/device/products.cuh"

/// What a library leaves to do: it observes nothing, its bias is of the result's dtype, its ReLU makes a NaN 0 and its
/// GELU is another one. So it makes sums, and a kernel of ours makes results of them.
namespace binade::cuda {
namespace {

/// f32 sums that are to become halves are made in panels of rows, which stay in the device's second-level cache until
/// they are read again.
constexpr std::int64_t kPanelBytes = std::int64_t{32} << 20;
constexpr std::int64_t kPanelRows = 256;  // a multiple of every tile's rows

cpu::GemmArgs only_sums(const cpu::GemmArgs& g) {
  cpu::GemmArgs sums = g;
  sums.activation = Activation::kNone;
  sums.pre_activation = nullptr;
  return sums;
}

void* moved(void* data, DType dtype, std::int64_t elements) {
  return data == nullptr ? nullptr : static_cast<char*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}
const void* moved(const void* data, DType dtype, std::int64_t elements) {
  return moved(const_cast<void*>(data), dtype, elements);
}

/// To f32 results of 8-bit products cuBLASLt adds biases of bf16 alone.
bool adds_bias(const cpu::GemmArgs& g) { return g.out == DType::f32 && g.in != DType::u8; }

/// Results lie where the library has put sums of their own dtype, bias included where it adds it.
bool in_place(const cpu::GemmArgs& g) {
  cpu::GemmArgs sums = only_sums(g);
  if (g.pre_activation != nullptr) sums.c = g.pre_activation;
  if (!adds_bias(g)) sums.bias = nullptr;
  if (!library_gemm(sums)) return false;
  Finish finish = finish_of(g);
  if (adds_bias(g)) finish.bias = nullptr;
  finish_sums(finish, {.from = {sums.c, g.out}, .row = g.c_row, .batch = {}}, 1, g.m, g.n);
  return true;
}

bool in_panels(const cpu::GemmArgs& g) {
  const std::int64_t panels = ceil_div(g.m * g.n * static_cast<std::int64_t>(sizeof(float)), kPanelBytes);
  const std::int64_t most = ceil_div(ceil_div(g.m, panels), kPanelRows) * kPanelRows;
  const Buffer<float> buffer((most < g.m ? most : g.m) * g.n);
  for (std::int64_t first = 0; first < g.m; first += most) {
    const std::int64_t rows = first + most < g.m ? most : g.m - first;
    cpu::GemmArgs sums = only_sums(g);
    sums.m = rows;
    sums.a = moved(g.a, g.in, first * g.a_row);
    sums.bias = nullptr;
    sums.c = buffer.data();
    sums.c_row = g.n;
    sums.out = DType::f32;
    if (!library_gemm(sums)) return false;
    Finish finish = finish_of(g);
    finish.y.data = moved(g.c, g.out, first * g.c_row);
    finish.z = moved(g.pre_activation, g.out, first * g.c_row);
    finish_sums(finish, {.from = {buffer.data(), DType::f32}, .row = g.n, .batch = {}}, 1, rows, g.n);
  }
  return true;
}

}  // namespace

bool gemm_by_library(const cpu::GemmArgs& g) {
  const bool sums_only = g.activation == Activation::kNone && g.pre_activation == nullptr;
  if (sums_only && (g.bias == nullptr || adds_bias(g))) {
    Finish finish = finish_of(g);
    if (!evenly_spaced(g.c_offsets, g.batch, finish.batch.stride) || !library_gemm(g)) return false;
    observe_products(finish, g.batch, g.m, g.n);
    return true;
  }
  if (g.batch != 1 || g.c_offsets != nullptr) return false;  // layers have no batches, batches no biases
  // ReLU of a rounded sum is the rounded ReLU.
  const bool exact_from_rounded = g.bias == nullptr && g.pre_activation == nullptr && g.activation == Activation::kRelu;
  return g.out == DType::f32 || exact_from_rounded ? in_place(g) : in_panels(g);
}

}  // namespace binade::cuda
