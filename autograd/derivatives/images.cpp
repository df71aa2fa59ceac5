#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/autograd/derivatives/transposed.h"
#include "binade/autograd/functions/index.h"
#include "binade/autograd/functions/math.h"
#include "binade/core/make.h"
#include "binade/core/ops/avg_pool2d.h"
#include "binade/core/ops/max_pool2d.h"
#include "binade/core/ops/upsample.h"

namespace binade::derivatives {
namespace {

/// Returns the position of the maximum of each window, as an index into the elements of x in row-major order, one for
/// each element of y. Forward saved the positions within the windows.
Variable chosen_positions(const RecordedCall& call) {
  const auto& p = call.params<ops::MaxPool2d>();
  const Shape& x = call.described(0).shape;
  const Tensor& in_window = call.saved(0);
  const Shape& y = in_window.shape();
  const Device device = in_window.device();
  const Variable place = in_window.to(DType::i64), in_row = quotient(place, p.kernel.x);
  const auto from_zero = [&](std::int64_t count, const Shape& shape) {
    return Variable(arange(std::int64_t{0}, count, std::int64_t{1}, DType::i64, device).reshape(shape));
  };
  const Variable row = from_zero(y[1], {1, y[1], 1, 1}) * p.stride.y - p.padding.y + in_row;
  const Variable col = from_zero(y[2], {1, 1, y[2], 1}) * p.stride.x - p.padding.x + (place - in_row * p.kernel.x);
  const Variable pixel = (from_zero(y[0], {y[0], 1, 1, 1}) * x[1] + row) * x[2] + col;
  return reshape(pixel * x[3] + from_zero(y[3], {1, 1, 1, y[3]}), {y.numel()});
}

/// Adds each element of gy to the gradient at its window's maximum. The positions of the maxima are constants.
Variables max_pool_gradient(const RecordedCall& call) {
  if (call.gy().value().numel() == 0) return Variables(1);
  const Shape& x = call.described(0).shape;
  const Variable gy = wide(call.gy());
  const Variable zeros = Tensor::zeros({x.numel()}, gy.dtype(), gy.device());
  return {shaped(index_add(zeros, 0, chosen_positions(call), reshape(gy, {gy.value().numel()})), x)};
}

constexpr Entry kEntries[] = {
    {&ops::AvgPool2d::info, [](const RecordedCall& c) { return transposed<ops::AvgPool2d>(c); }},
    {&ops::Upsample::info, [](const RecordedCall& c) { return transposed<ops::Upsample>(c); }},
    {&ops::UpsampleBicubic::info, [](const RecordedCall& c) { return transposed<ops::UpsampleBicubic>(c); }},
    {&ops::MaxPool2d::info, max_pool_gradient},
    {&ops::MaxPool2dIndices::info, max_pool_gradient},
};

}  // namespace

std::span<const Entry> derivatives_of_image_ops() { return kEntries; }

}  // namespace binade::derivatives
