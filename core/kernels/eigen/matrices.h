#pragma once

#include "binade/core/kernels/eigen/blocks.h"

namespace binade::cpu {

/// Copies matrix number `position` of a batch to `m`, an Eigen matrix of doubles of the right size.
template <class M>
void load(In a, std::int64_t position, M& m) {
  for_element_type(a.dtype, "matrix", [&]<class T>(T) {
    const T* from = static_cast<const T*>(a.data) + position * m.size();
    for (std::int64_t i = 0; i < m.rows(); ++i)
      for (std::int64_t j = 0; j < m.cols(); ++j) m(i, j) = static_cast<double>(from[i * m.cols() + j]);
  });
}

/// Stores `m`, an expression of doubles, as matrix number `position`. Does nothing if `to` has no data.
template <class M>
void store(const M& m, Out to, std::int64_t position) {
  if (to.data == nullptr) return;
  for_element_type(to.dtype, "matrix", [&]<class T>(T) {
    T* out = static_cast<T*>(to.data) + position * m.size();
    for (std::int64_t i = 0; i < m.rows(); ++i)
      for (std::int64_t j = 0; j < m.cols(); ++j) out[i * m.cols() + j] = static_cast<T>(m(i, j));
  });
}

}  // namespace binade::cpu
