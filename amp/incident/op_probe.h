#pragma once

#include <cstdint>

#include "binade/autograd/observer.h"

namespace binade::amp {

/// A call of an op with the tensors that it read, recorded so that the call can be computed again.
struct RecordedCall {
  OpFunction function{};     ///< the op as a function; empty if no call was recorded
  Tensors operands{};        ///< the operands, after casts, as the op read them
  Tensors gradients{};       ///< gradients of the outputs, if backward is to be computed; an undefined one counts as 0
  DType dtype = DType::f32;  ///< dtype of the bad tensor
};

/// Records one call of an op, forward and backward, in one run of a step.
class CallRecorder final : public TapeObserver {
 public:
  CallRecorder(std::int64_t micro_batch, std::int64_t tape_index)
      : micro_batch_(micro_batch), tape_index_(tape_index) {}

  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;
  void before_backward(const OpCall& call, Tensors& gy) override;
  void after_backward(const OpCall& call, std::span<const Tensor> gy, std::span<const Tensor> gx,
                      const Observation& seen) override;
  const RecordedCall& recorded() const { return recorded_; }

 private:
  bool concerns(const OpCall& call) const;

  std::int64_t micro_batch_, tape_index_;
  RecordedCall recorded_;
};

/// Returns the forward call of an op as a RecordedCall without gradients.
RecordedCall record_forward(const OpCall& call, std::span<const Tensor> read, DType dtype);

/// The result of a call in f64, on the same operands.
enum class ResultInDouble : std::uint8_t {
  kUnknown,      ///< the op cannot be computed in f64, or was not recorded
  kInRange,      ///< finite, and the dtype of the bad tensor can hold it
  kBeyondRange,  ///< beyond the range of that dtype; or an intermediate value of the op is, if the op computes in that
                 ///< dtype
  kSingular,     ///< not finite, but finite for slightly different operands and scalar parameters: the call is at a
                 ///< singularity
  kNotFinite,    ///< not finite for slightly different operands either, but finite for others: the operands are outside
                 ///< of the op's domain
  kNeverFinite,  ///< not finite for any operands that were tried: the op itself is wrong
};
/// Computes a recorded call in f64 on the CPU: its outputs, or the gradients of its inputs if it has `gradients`. If
/// the op refuses f64, a derivative that is finite for smaller gradients counts as kBeyondRange.
ResultInDouble result_in_double(const RecordedCall& call);
/// True if the values of a product, a convolution or an attention stay in range, in whatever order the op adds: the
/// result in f64 is at most half of the largest number of its dtype, and an upper bound of all partial sums is in the
/// range of f32. REQUIRES result_in_double(call) == kInRange.
bool sums_are_in_range(const RecordedCall& call);

}  // namespace binade::amp
