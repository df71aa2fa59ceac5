#pragma once

#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/error.h"

namespace binade::fuzz {

/// Maximum multiply-adds of a convolution in the campaign: about a second under a sanitizer.
constexpr double kMostWork = 1 << 27;

inline std::vector<std::int64_t> extents_of(const Variable& x) {
  if (!x.defined()) return {};
  return {x.shape().dims().begin(), x.shape().dims().end()};
}

/// Whether `Op`, a convolution of x by filters of extents w, would accept the parameters and take more than kMostWork:
/// with paddings, strides and kernels of 1000, a few pixels become millions. Such a call gets default parameters.
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
