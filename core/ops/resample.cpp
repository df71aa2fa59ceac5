#include "binade/core/ops/resample.h"

#include <new>

#include "binade/core/kernels/table.h"
#include "binade/core/ops/input_gradient.h"

namespace binade::ops {
namespace {

Taps taps(const TapList& list, bool divide) {
  return {list.begin.data(), list.source.data(), list.weight.data(), divide ? list.divisor.data() : nullptr};
}

Resample describe(const Tensor& x, std::int64_t out_height, std::int64_t out_width) {
  Resample a{.dtype = x.dtype(), .images = x.dim(0), .height = x.dim(1), .width = x.dim(2), .channels = x.dim(3)};
  a.out_height = out_height;
  a.out_width = out_width;
  a.x = x.raw();
  a.x_pitch = x.pitch();
  return a;
}

std::int64_t positions(const TapList& list) { return static_cast<std::int64_t>(list.begin.size()) - 1; }

}  // namespace

TapList::TapList(std::int64_t outputs, std::int64_t taps) {
  const auto count = static_cast<std::size_t>(outputs);
  begin.reserve(count + 1);
  divisor.reserve(count);
  source.reserve(count * static_cast<std::size_t>(taps));
  weight.reserve(count * static_cast<std::size_t>(taps));
  begin.push_back(0);
}

TapList TapList::transposed(std::int64_t sources) const {
  std::vector<std::vector<std::pair<std::int64_t, double>>> readers(static_cast<std::size_t>(sources));
  for (std::size_t out = 0; out + 1 < begin.size(); ++out)
    for (auto i = static_cast<std::size_t>(begin[out]); i < static_cast<std::size_t>(begin[out + 1]); ++i)
      readers[static_cast<std::size_t>(source[i])].emplace_back(static_cast<std::int64_t>(out), weight[i]);
  TapList list(sources);
  for (const auto& taken : readers) {
    for (const auto& [out, factor] : taken) list.add(out, factor);
    list.close();
  }
  list.divisor = divisor;  // not transposed: the divisor of an output now belongs to a source
  return list;
}

Tensor resample(const Tensor& x, const TapList& rows, const TapList& cols, bool divide) {
  Resample a = describe(x, positions(rows), positions(cols));
  Tensor y = Tensor::empty(Shape{x.dim(0), a.out_height, a.out_width, x.dim(3)}, x.dtype(), x.device());
  a.rows = taps(rows, divide);
  a.cols = taps(cols, divide);
  a.y = y.mutable_raw();
  kernels(x.device()).resample(a);
  return y;
}

void resample_backward(const Tensor& gy, const OpContext::Input& x, GradSink& gx, const TapList& rows,
                       const TapList& cols, bool divide) {
  if (!gx.needs(0)) return;
  const TapList rows_back = rows.transposed(x.shape[1]), cols_back = cols.transposed(x.shape[2]);
  Resample a = describe(gy, x.shape[1], x.shape[2]);
  InputGradient g(gx, 0, gy.dtype());
  a.rows = taps(rows_back, divide);
  a.cols = taps(cols_back, divide);
  a.divide_before = divide;
  a.y = g.raw();
  kernels(gy.device()).resample(a);
  g.finish();
}

}  // namespace binade::ops
