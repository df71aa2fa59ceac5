#pragma once

#include "binade/core/kernels/eigen/blocks.h"

namespace binade::cpu {

/// Solves op(a) x = x in place for x (n, columns), where op(a) is one triangle of a (n, n), or its transpose.
template <class T>
void solve_left(const Block<const T>& a, const Block<T>& x, bool upper, bool transpose, bool unit);
/// Solves x l^T = x in place for x (rows, n), where l is the lower triangle of l (n, n).
template <class T>
void solve_right_transposed(const Block<const T>& l, const Block<T>& x);

extern template void solve_left(const Block<const float>&, const Block<float>&, bool, bool, bool);
extern template void solve_left(const Block<const double>&, const Block<double>&, bool, bool, bool);
extern template void solve_right_transposed(const Block<const float>&, const Block<float>&);
extern template void solve_right_transposed(const Block<const double>&, const Block<double>&);

}  // namespace binade::cpu
