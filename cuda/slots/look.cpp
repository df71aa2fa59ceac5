#include "binade/core/look_kernels.h"
#include "binade/cuda/register.h"
#include "binade/cuda/run.h"

namespace binade::cuda {
namespace {

void pole(const PoleLook& look) { run(Call::kPoleLook, look, "pole distance"); }
void zeros(const ZeroLook& look) { run(Call::kZeroLook, look, "zeros of a gradient"); }
void softmax(const SoftmaxLook& look) { run(Call::kSoftmaxLook, look, "attention entropy"); }
void attention(const AttentionLook& look) { run(Call::kAttentionLook, look, "attention entropy"); }

}  // namespace

void register_look() { look_kernels().fill(DeviceType::kCuda, {&pole, &zeros, &softmax, &attention}); }

}  // namespace binade::cuda
