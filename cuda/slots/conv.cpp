#include "binade/core/ops/convolutions.h"
#include "binade/cuda/register.h"
#include "binade/cuda/run.h"

namespace binade::cuda {
namespace {

void forward(const cpu::ConvArgs& args) { run(Call::kConv, ConvCall{.args = args}, "convolution"); }
void data_gradient(const cpu::ConvArgs& args) {
  run(Call::kConv, ConvCall{.args = args, .transposed = true}, "convolution, data gradient");
}
void weight_gradient(const cpu::ConvWeightArgs& args) {
  run(Call::kConvWeight, ConvWeightCall{.args = args}, "convolution, weight gradient");
}

}  // namespace

void register_conv() { ops::conv_slot().fill(DeviceType::kCuda, {&forward, &data_gradient, &weight_gradient}); }

}  // namespace binade::cuda
