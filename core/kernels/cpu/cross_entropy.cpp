#include <algorithm>
#include <cmath>

#include "binade/core/error.h"
#include "binade/core/faults.h"
#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/loss_loops.h"
#include "binade/core/kernels/views.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

std::int64_t label_at(In targets, std::int64_t row) {
  switch (targets.dtype) {
    case DType::i64: return static_cast<const std::int64_t*>(targets.data)[row];
    case DType::i32: return static_cast<const std::int32_t*>(targets.data)[row];
    default: return static_cast<const std::uint8_t*>(targets.data)[row];
  }
}

std::int64_t count_labels(const CrossEntropyArgs& a) {
  std::int64_t count = 0;
  for (std::int64_t row = 0; row < a.rows; ++row) {
    const std::int64_t label = label_at(a.targets, row);
    if (label == a.ignore_index) continue;
    if (label < 0 || label >= a.classes) [[unlikely]]
      throw DataError(describe({.call = a.call, .position = row, .value = label}));
    ++count;
  }
  return count;
}

std::int64_t rows_grain(std::int64_t classes) {
  return std::max<std::int64_t>(1, (1 << 13) / std::max<std::int64_t>(classes, 1));
}

/// Returns a row's loss from its statistics `three`: the maximum, the sum of exp(x - maximum) and, for smoothing, the
/// sum of x - maximum.
template <class C>
C row_loss(const C* three, C target_logit, std::int64_t classes, C smoothing) {
  const C nll = std::log(three[1]) - (1 - smoothing) * (target_logit - three[0]);
  return smoothing > 0 ? nll - smoothing * (three[2] / static_cast<C>(classes)) : nll;
}

/// Returns the number by which the sum of all losses is divided.
double divisor_of(const CrossEntropyArgs& a) { return a.divisor != 0 ? a.divisor : static_cast<double>(*a.count); }

/// Computes the statistics and the loss of each row, and the sum of the losses. C is the type of the statistics.
template <class C>
void forward(const CrossEntropyArgs& a) {
  *a.count = count_labels(a);
  Tensor losses = Tensor::empty(Shape{a.rows}, kDTypeOf<C>);  // 0 for ignored rows
  C* const statistics = static_cast<C*>(a.statistics.data);
  C* const loss_of = losses.mutable_data<C>();
  parallel_for(a.rows, rows_grain(a.classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      C three[3] = {0, 1, 0};
      const std::int64_t label = label_at(a.targets, row);
      const In x = a.logits.at(row * a.pitch);
      if (label != a.ignore_index) level().losses->row_statistics(x, a.classes, a.label_smoothing > 0, three);
      statistics[2 * row] = three[0];
      statistics[2 * row + 1] = three[1];
      C logit = 0;
      if (label != a.ignore_index)
        dispatch_float(x.dtype, "cross_entropy", [&]<class T>(TypeTag<T>) {
          logit = static_cast<C>(load(static_cast<const T*>(x.data)[label]));
        });
      loss_of[row] = label == a.ignore_index ? C(0)
                                             : row_loss(three, logit, a.classes, static_cast<C>(a.label_smoothing));
    }
  });
  if (a.each) {
    run_convert(
        {.to = {a.out.data, a.out.dtype, a.rows}, .from = {loss_of, kDTypeOf<C>, a.rows}, .rows = 1, .cols = a.rows});
    if (a.out.dtype == DType::f32) run_observe({a.out.data, DType::f32, a.rows});  // run_convert() observes no f32
    return;
  }
  ReduceArgs sum{.divisor = divisor_of(a), .x = input(losses), .y = a.out};
  if (a.rows != 1) sum.extents[sum.groups] = a.rows, sum.reduced[sum.groups++] = true;
  run_reduce(sum);
}

void backward(const CrossEntropyArgs& a) {
  const auto gy = [&](std::int64_t i) {
    return dispatch_float(a.gy.dtype, "cross_entropy", [&]<class T>(TypeTag<T>) {
      return static_cast<double>(load(static_cast<const T*>(a.gy.data)[i]));
    });
  };
  const double scale_of_all = a.each ? 0 : gy(0) / divisor_of(a);
  const double share = a.label_smoothing / static_cast<double>(a.classes);
  const In statistics{a.statistics.data, a.statistics.dtype};
  parallel_for(a.rows, rows_grain(a.classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t label = label_at(a.targets, row);
      const double scale = a.each ? gy(row) : scale_of_all;
      const Out to = a.out.at(row * a.classes);
      if (label == a.ignore_index)
        std::fill_n(static_cast<std::byte*>(to.data), static_cast<std::size_t>(a.classes) * size_of(to.dtype),
                    std::byte{0});
      else
        level().losses->row_gradient(a.logits.at(row * a.pitch), a.classes, statistics.at(2 * row).data, scale, share,
                                     1 - a.label_smoothing, label, to);
    }
  });
}

}  // namespace

void run_cross_entropy(const CrossEntropyArgs& a) {
  if (a.backward) return backward(a);
  a.statistics.dtype == DType::f64 ? forward<double>(a) : forward<float>(a);
}

}  // namespace binade::cpu
