#include "binade/amp/watch/op_checksums.h"

#include <algorithm>
#include <limits>

#include "binade/core/kernels/table.h"
#include "binade/core/step_context.h"

namespace binade::amp {

OpChecksums::OpChecksums(Device device, int micro_batch, const OpChecksums* earlier)
    : micro_batch_(micro_batch),
      most_calls_(earlier != nullptr ? earlier->calls_.size() : std::numeric_limits<std::size_t>::max()),
      sums_(Tensor::zeros({kSums}, DType::i64, device)) {}

void OpChecksums::after_forward(const OpCall& call, std::span<const Tensor>, Tensors& outputs, const Observation&) {
  add(call, Direction::kForward, outputs);
}

void OpChecksums::after_backward(const OpCall& call, std::span<const Tensor>, std::span<const Tensor> gx,
                                 const Observation&) {
  add(call, Direction::kBackward, gx);
}

void OpChecksums::add(const OpCall& call, Direction direction, std::span<const Tensor> results) {
  if (step_context().micro_batch != static_cast<std::uint32_t>(micro_batch_) || calls_.size() == most_calls_) return;
  const std::int64_t slot = std::min(static_cast<std::int64_t>(calls_.size()), kSums - 1);
  calls_.push_back({std::string(call.module_path), &call.info, direction, call.tape_index});
  auto* const sum = static_cast<std::uint64_t*>(sums_.mutable_raw()) + slot;
  std::uint64_t salt = 0;  // so that an exchange of two results changes the sum
  for (const Tensor& result : results) {
    ++salt;
    if (!result.defined() || result.numel() == 0) continue;
    const Tensor dense = result.contiguous_copy();
    const auto bytes = dense.numel() * static_cast<std::int64_t>(size_of(dense.dtype()));
    kernels(dense.device()).checksum({dense.raw(), bytes, salt, sum});
  }
}

ChecksumMismatch OpChecksums::mismatch(const Call& call, bool other_ops) const {
  return {call.module, call.info->name, call.info, call.direction, micro_batch_, call.tape_index, other_ops};
}

std::optional<ChecksumMismatch> OpChecksums::first_difference(const OpChecksums& earlier) const {
  const Tensor here = sums_.on_host(), there = earlier.sums_.on_host();
  const auto* const a = here.data<std::int64_t>();
  const auto* const b = there.data<std::int64_t>();
  for (std::size_t i = 0; i < earlier.calls_.size(); ++i) {
    const Call& call = earlier.calls_[i];
    if (i >= calls_.size() || !(calls_[i] == call)) return mismatch(call, true);
    const std::int64_t slot = std::min(static_cast<std::int64_t>(i), kSums - 1);
    if (a[slot] != b[slot]) return mismatch(call, false);
  }
  return std::nullopt;
}

}  // namespace binade::amp
