#include "binade/core/ops/dropout.h"
#include "binade/core/ops/softmax.h"
#include "binade/cuda/register.h"
#include "binade/cuda/run.h"
#include "binade/cuda/slots/walk.h"

namespace binade::cuda {
namespace {

const char* name_of(bool log) { return log ? ops::LogSoftmax::info.name : ops::Softmax::info.name; }

void softmax(const Tensor& x, Tensor& y, bool log) {
  const SoftmaxCall call{.log = log,
                         .rows = x.shape().rows(),
                         .cols = x.shape().cols(),
                         .pitch = x.pitch(),
                         .x = source(x),
                         .y = target(y)};
  run(Call::kSoftmax, call, name_of(log));
}

void softmax_backward(const Tensor& y, const Tensor& gy, Tensor& gx, bool log) {
  const SoftmaxCall call{.log = log,
                         .backward = true,
                         .rows = y.shape().rows(),
                         .cols = y.shape().cols(),
                         .pitch = y.pitch(),
                         .x = source(y),
                         .gy = source(gy),
                         .y = target(gx)};
  run(Call::kSoftmax, call, name_of(log));
}

void dropout(const Tensor& x_any, Tensor& y, const RandomStream& stream, std::uint32_t drop, double scale) {
  const Tensor x = x_any.contiguous_copy();
  const DropoutCall call{
      .x = source(x), .y = target(y), .count = y.numel(), .stream = stream, .drop = drop, .scale = scale};
  run(Call::kDropout, call, ops::Dropout::info.name);
}

}  // namespace

void register_rows() {
  ops::softmax_kernels.fill(DeviceType::kCuda, {&softmax, &softmax_backward});
  ops::Dropout::kernels.fill(DeviceType::kCuda, {&dropout});
}

}  // namespace binade::cuda
