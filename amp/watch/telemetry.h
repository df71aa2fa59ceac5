#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/amp/watch/headroom.h"
#include "binade/amp/watch/probe_buffer.h"
#include "binade/amp/watch/singularity.h"
#include "binade/autograd/observer.h"

namespace binade::amp {

/// Records the largest magnitude that each op call of a step stored, in both directions. Costs a few comparisons per
/// op: it does not read results of Binade's kernels again, and it does not synchronize during the step.
///
/// Infinities of a mask are legal and not recorded: if an op that takes masks (NonFinite::kMasks) has a finite result,
/// all infinities in its operands belong to masks.
class Telemetry final : public TapeObserver {
 public:
  /// Additional measurements of one step.
  struct Probes {
    bool zeros = false;      ///< counts zeros in a sample of the 16-bit gradients
    bool limits = false;     ///< measures attention entropy and how near operands are to singularities; records which
                             ///< ops computed the operands (OpRecord::producers)
    bool libraries = false;  ///< captured steps read results of GPU libraries again, to measure their headroom
  };
  /// Starts an attempt: clears all records.
  void begin(const Probes& probes);
  void begin() { begin(Probes{}); }

  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;
  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                     const Observation& amax) override;
  void after_backward(const OpCall& call, std::span<const Tensor> gy, std::span<const Tensor> gx,
                      const Observation& amax) override;

  /// Fetches a GPU's measurements, once for all ops. Call it when the step is over, before any function below.
  void synchronize();
  [[deprecated("use synchronize()")]] void settle() { synchronize(); }
  /// Replaces all records by those of one run of a captured step. `captured`: the telemetry of the capture; `words`:
  /// the magnitudes that the run's kernels recorded (CapturedGraph::observations); `probed`: the run's probe results.
  /// Needs no synchronize().
  void replay(const Telemetry& captured, std::span<const std::uint32_t> words, std::span<const double> probed);

  /// Reserves memory for as many probe results as `other` has, at fixed addresses: for a step that is captured.
  void reserve_like(const Telemetry& other) { buffer_.reserve_like(other.buffer_); }
  /// Returns the probe results of a captured step, in device memory.
  std::span<const double> probe_results() const { return buffer_.device_values(); }

  /// The measurements of one op call. Micro-batches are merged.
  struct OpRecord {
    std::string module{};
    const char* op = nullptr;             ///< name of the op; null if no call has this tape index
    const OpInfo* info = nullptr;         ///< description of the op; null if `op` is null
    DType half_dtype = DType::f16;        ///< the 16-bit dtype of `amax.low`
    Observation amax{};                   ///< largest magnitudes that were stored
    std::vector<std::int64_t> pending{};  ///< Observation::pending of the micro-batches after the first
    std::int64_t sampled = 0;             ///< number of gradient elements that were probed for zeros
    std::int64_t zeros = 0;               ///< number of zeros among the `sampled` elements
    bool is_attention_scores = false;     ///< forward: the result is query times key, the logits of a softmax
    const void* result = nullptr;         ///< forward: address of the first result
    /// Forward, with Probes::limits: tape indices of the ops whose results the op read
    std::vector<std::int64_t> producers{};
    bool reads_outside = false;  ///< forward, with Probes::limits: the op read a tensor that is neither a parameter nor
                                 ///< the result of an op
    bool masked = false;         ///< forward: `amax` was cleared, because its infinities belong to a mask
    std::optional<SingularityDistance> singularity{};  ///< forward of a singular op, with Probes::limits
    std::optional<double> entropy{};                   ///< smallest attention_entropy(), with Probes::limits
    double zero_share() const { return sampled > 0 ? static_cast<double>(zeros) / static_cast<double>(sampled) : 0; }
  };
  using Slot [[deprecated("use OpRecord")]] = OpRecord;
  /// Returns the records of the last attempt, by tape index.
  std::span<const OpRecord> records(Direction direction) const {
    const Tape& tape = direction == Direction::kForward ? forward_ : backward_;
    return std::span(tape.records).first(tape.length);
  }
  [[deprecated("use records()")]] std::span<const OpRecord> slots(Direction direction) const {
    return records(direction);
  }
  /// Replaces the records of one direction by the merged records of several telemetries, `parts`: each observed other
  /// micro-batches of the same step, in order. An op that this telemetry has observed too keeps its own OpInfo.
  void replace(Direction direction, std::span<const std::vector<OpRecord>> parts);
  /// Returns the smallest headroom of all ops.
  Headroom least(Direction direction) const;
  /// Returns the headroom of every module with an observed op, in order of first execution.
  std::vector<ModuleHeadroom> by_module() const;
  /// Returns the headroom that the results of an op ("PATH/op") would have in `dtype`; infinite if it was not observed.
  double headroom_in(DType dtype, std::string_view target) const;

 private:
  /// An op that may have read a mask, and whose result is still on a GPU.
  struct MaskReader {
    std::int64_t tape_index = 0;
    std::vector<const void*> operands{};
  };
  /// A probe whose result is still on a GPU.
  struct PendingProbe {
    /// What the probe measures: the distance to a singularity, the entropy of attention, or the share of zeros.
    enum class Kind { kSingularity, kEntropy, kZeros };
    Kind kind = Kind::kSingularity;
    std::int64_t tape_index = 0;
    std::int64_t first = 0, count = 1;  // range of `buffer_` that holds the result
    DType dtype = DType::f32;           // dtype of the singular operand
  };
  template <class F>
  void resolve_pending(F&& resolved);
  /// Fills and returns the record of an op call.
  OpRecord& record(const OpCall& call, std::span<const Tensor> results, const Observation& amax);
  void find_producers(std::span<const Variable> inputs, const Tensors& read);
  std::int64_t producer_of(const void* operand) const;
  void ignore_masks(std::int64_t reader, const Observation& amax, std::span<const void* const> operands);
  void ignore_infinities(std::int64_t before, const void* operand);
  /// Measures an op's distance to its singularity, and the entropy of its attention.
  void probe_limits(const OpCall& call, std::span<const Tensor> read, OpRecord& record);
  void probe_limits_on_device(const OpCall& call, std::span<const Tensor> read, OpRecord& record);
  /// Counts zeros in a sample of a gradient's elements.
  void probe_zeros(const OpCall& call, const Tensor& gradient, OpRecord& record);
  void merge_probes(std::span<const double> probed);

  /// The records of the ops of one direction, forward or backward.
  struct Tape {
    std::vector<OpRecord> records{};  // never shrinks, so that attempts reuse the memory
    std::size_t length = 0;           // number of records of this attempt
  };
  Tape forward_, backward_;
  std::vector<const void*> mask_operands_;  // operands of the running op, if it accepts -inf
  std::vector<std::int64_t> producers_;     // OpRecord::producers of the running op
  bool reads_outside_ = false;              // OpRecord::reads_outside of the running op
  std::vector<MaskReader> mask_readers_;
  std::vector<PendingProbe> pending_probes_;
  bool reads_scores_ = false;  // the running op is the softmax of a composed attention
  ProbeBuffer buffer_;
  Probes probes_;
};

/// Returns the headroom of an observation whose 16-bit values have dtype `half`.
double headroom_of(const Observation& amax, DType half);

/// True if an infinity or a NaN was stored.
bool overflowed(const Observation& amax, DType half);

/// True if values were stored, and all of them were 0.
bool only_zeros(const Observation& amax);

/// True if nonzero values were stored in the 16-bit dtype `half`, and all of them round to 0 there.
bool all_underflow(const Observation& amax, DType half);

}  // namespace binade::amp
