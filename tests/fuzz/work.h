#pragma once

#include <vector>

#include "autograd/variable.h"
#include "core/error.h"

namespace binade::fuzz {

/// Multiply-adds that a convolution of the campaign may take: a second or so where a sanitizer watches each of them.
constexpr double kMostWork = 1 << 27;

inline std::vector<std::int64_t> extents_of(const Variable& x) {
  if (!x.defined()) return {};
  return {x.shape().dims().begin(), x.shape().dims().end()};
}

/// The parameters of `Op`, a convolution of x by a w of these extents: those that were drawn if the call with them is
/// refused or takes at most kMostWork, the usual ones otherwise. Paddings and strides of 1000 lead from a few pixels to
/// millions.
template <class Op>
typename Op::Params bounded(const Variable& x, const std::vector<std::int64_t>& w, const typename Op::Params& drawn) {
  try {
    const Shape filters{std::span(w)};
    const Shape y = Op::output_shape(x.defined() ? x.shape() : Shape(), filters, drawn);
    const double pixels = static_cast<double>(y[0]) * static_cast<double>(y[1]) * static_cast<double>(y[2]);
    if (pixels * static_cast<double>(filters.numel()) <= kMostWork) return drawn;
  } catch (const Error&) {
    return drawn;
  }
  return {.groups = drawn.groups};
}

}  // namespace binade::fuzz
