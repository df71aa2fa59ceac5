#pragma once

#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/error.h"

namespace binade::fuzz {

/// Multiply-adds that a convolution of the campaign may take: a second or so where a sanitizer watches each of them.
constexpr double kMostWork = 1 << 27;

inline std::vector<std::int64_t> extents_of(const Variable& x) {
  if (!x.defined()) return {};
  return {x.shape().dims().begin(), x.shape().dims().end()};
}

/// Whether `Op`, a convolution of x by a w of these extents, would accept these parameters and take more than
/// kMostWork: paddings, strides and kernels of 1000 lead from a few pixels to millions. Such a call gets the usual
/// ones.
template <class Op>
bool takes_long(const Variable& x, const std::vector<std::int64_t>& w, const typename Op::Params& p) {
  try {
    const Shape filters{std::span(w)};
    const Shape y = Op::output_shape(x.defined() ? x.shape() : Shape(), filters, p);
    const double pixels = static_cast<double>(y[0]) * static_cast<double>(y[1]) * static_cast<double>(y[2]);
    return pixels * static_cast<double>(filters.numel()) > kMostWork;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace binade::fuzz
