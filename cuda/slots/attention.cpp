#include "binade/core/ops/attention.h"

#include "binade/cuda/register.h"
#include "binade/cuda/run.h"

namespace binade::cuda {
namespace {

void forward(const cpu::AttentionForward& f) { run(Call::kAttentionForward, f, ops::Attention::info.name); }
void backward(const cpu::AttentionBackward& b) { run(Call::kAttentionBackward, b, ops::Attention::info.name); }
void additive(const TensorRows& mask, const TensorRows& to, std::int64_t rows, std::int64_t cols) {
  run(Call::kAdditiveMask, AdditiveMaskCall{mask, to, rows, cols}, ops::Attention::info.name);
}

}  // namespace

void register_attention() {
  ops::attention_slot().fill(DeviceType::kCuda, {&forward, &backward});
  ops::mask_slot().fill(DeviceType::kCuda, {&additive});
}

}  // namespace binade::cuda
