#pragma once

// Eigen includes these system headers. They are included here first, because the sources include Eigen with hidden
// visibility, so that its symbols are not exported.
#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <climits>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <sstream>
#include <vector>

#include "binade/core/error.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/parallel.h"

/// Views of matrices, and the product that the blocked algorithms of this folder share.
namespace binade::cpu {

/// A part of a row-major matrix; rows are `stride` elements apart.
template <class T>
struct Block {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;

  T& operator()(std::int64_t i, std::int64_t j) const { return data[i * stride + j]; }
  Block part(std::int64_t row, std::int64_t column, std::int64_t height, std::int64_t width) const {
    return {data + row * stride + column, height, width, stride};
  }
};

/// c -= a b, or with `transpose_b` c -= a b^T, by Binade's GEMM.
template <class T>
void subtract_product(const Block<T>& c, const Block<const T>& a, const Block<const T>& b, bool transpose_b = false) {
  if (c.rows == 0 || c.columns == 0 || a.columns == 0) return;
  std::vector<T> negative(static_cast<std::size_t>(a.rows * a.columns));
  parallel_for(a.rows, std::max<std::int64_t>(1, (1 << 15) / a.columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t j = 0; j < a.columns; ++j) negative[static_cast<std::size_t>(i * a.columns + j)] = -a(i, j);
  });
  GemmArgs g;
  g.m = c.rows;
  g.n = c.columns;
  g.k = a.columns;
  g.in = g.out = kDTypeOf<T>;
  g.a = negative.data();
  g.a_row = a.columns;
  g.b = b.data;
  g.b_row = transpose_b ? 1 : b.stride;
  g.b_col = transpose_b ? b.stride : 1;
  g.c = c.data;
  g.c_row = c.stride;
  g.accumulate = true;
  g.partial = true;
  run_gemm(g);
}

/// Calls f(T()) for the element type of `dtype`, float or double.
template <class F>
void for_element_type(DType dtype, const char* kernel, F&& f) {
  if (dtype == DType::f32) return f(float{});
  if (dtype == DType::f64) return f(double{});
  throw_not_floating(dtype, kernel);
}

/// Calls body(i) for all matrices of a batch. `work` is the number of operations for one of them. Large matrices are
/// processed one after the other, each with all threads. Small ones are divided among the threads.
template <class F>
void for_each_matrix(std::int64_t batch, double work, F&& body) {
  constexpr double kLarge = 1 << 22, kGrain = 1 << 16;
  if (work >= kLarge) {
    for (std::int64_t i = 0; i < batch; ++i) body(i);
    return;
  }
  const auto grain = static_cast<std::int64_t>(std::max(1.0, kGrain / std::max(work, 1.0)));
  parallel_for(batch, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) body(i);
  });
}

}  // namespace binade::cpu
