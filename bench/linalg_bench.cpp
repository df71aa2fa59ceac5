// Times Cholesky factorizations, solutions, SVD and einsum on the CPU; bench/peers/linalg.py times the same in PyTorch.
// Usage: linalg_bench [THREADS [REPEATS]]; prints JSON lines: what, dtype, milliseconds (the fastest of the repeats).
#include <fmt/core.h>

#include <cstdlib>

#include "bench/ceiling.h"
#include "binade/autograd/functions.h"
#include "binade/autograd/inference_mode.h"
#include "binade/core/make.h"
#include "binade/core/runtime.h"

namespace binade::bench {
namespace {

template <class F>
void measure(const char* what, DType dtype, int repeats, F&& f) {
  const InferenceMode no_gradients;
  f();
  fmt::print("{{\"what\": \"{}\", \"dtype\": \"{}\", \"ms\": {:.3f}}}\n", what, name_of(dtype),
             1e3 * best_seconds(repeats, f));
}

void measure_all(DType dtype, int repeats) {
  const auto matrices = [&](const std::vector<std::int64_t>& dims) {
    return Variable(randn(Shape(std::span<const std::int64_t>(dims))).to(dtype));
  };
  const auto definite = [&](const std::vector<std::int64_t>& dims) {
    const Variable x = matrices(dims), n = Variable(eye(dims.back(), -1, dtype));
    return matmul(x, x, {.transpose_b = true}) + n * static_cast<double>(dims.back());
  };
  const Variable small = definite({1024, 16, 16}), one = definite({1024, 1024}), b = matrices({1024, 64});
  const Variable tall = matrices({64, 32, 32}), q = matrices({8, 128, 8, 64}), k = matrices({8, 128, 8, 64});
  const Variable chain = matrices({256, 512});
  measure("cholesky of 1024 matrices of 16 rows", dtype, repeats, [&] { cholesky(small); });
  measure("cholesky of 1024 rows", dtype, repeats, [&] { cholesky(one); });
  measure("solve of 1024 rows for 64 columns", dtype, repeats, [&] { solve(one, b); });
  measure("svd of 64 matrices of 32 rows", dtype, repeats, [&] { svd(tall, false); });
  measure("einsum bqhd,bkhd->bhqk", dtype, repeats, [&] { einsum("bqhd,bkhd->bhqk", {q, k}); });
  measure("einsum ij,kj->ik", dtype, repeats, [&] { einsum("ij,kj->ik", {chain, chain}); });
}

}  // namespace
}  // namespace binade::bench

int main(int argc, char** argv) {
  const binade::Runtime runtime({.seed = 1, .threads = argc > 1 ? std::atoi(argv[1]) : 2});
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 10;
  for (const binade::DType dtype : {binade::DType::f32, binade::DType::f64}) binade::bench::measure_all(dtype, repeats);
}
