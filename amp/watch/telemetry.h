#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "binade/amp/watch/device_numbers.h"
#include "binade/amp/watch/headroom.h"
#include "binade/amp/watch/singularity.h"
#include "binade/autograd/observer.h"

namespace binade::amp {

/// Watches every step: for each op call, forward and backward, the largest magnitude that its kernels stored. Costs a
/// few comparisons an op; never reads a tensor of Binade's kernels again, and never waits.
///
/// An infinity that a mask put there is legal: an op that takes one (NonFinite::kMasks) and gives a finite result has
/// read no other, and what it read counts as not observed.
class Telemetry final : public TapeObserver {
 public:
  /// What is looked at besides, this time.
  struct Probes {
    bool zeros = false;   ///< the zeros among the 16-bit gradients are counted
    bool limits = false;  ///< how near operands come to a singularity, and how little attention still spreads
    /// What libraries computed on a GPU is read again, where the step is recorded: else its headroom is not known.
    bool libraries = false;
  };
  /// Forgets what the attempt before left.
  void begin(const Probes& probes);
  void begin() { begin(Probes{}); }

  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;
  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                     const Observation& seen) override;
  void after_backward(const OpCall& call, std::span<const Tensor> gy, std::span<const Tensor> gx,
                      const Observation& seen) override;

  /// Brings what a GPU saw: once for all ops, when the step is over. Everything below asks for it to have been called.
  void settle();
  /// As if this had watched a run of a recorded step: `recorded` did when it was recorded, and the run's kernels left
  /// `words` (CapturedGraph::observations) and what it `found`. Settled.
  void replay(const Telemetry& recorded, std::span<const std::uint32_t> words, std::span<const double> found);

  /// What looks find on a device stays where it is from here on, with room for as much as `other` has: for a step to be
  /// recorded.
  void keep_room(const Telemetry& other) { numbers_.keep_room(other.numbers_); }
  /// What they found, in device memory.
  std::span<const double> found() const { return numbers_.there(); }

  /// What one op call stored.
  struct Slot {
    std::string module{};
    const char* op = nullptr;  ///< null where the tape has no such call
    DType low = DType::f16;    ///< which 16-bit dtype `seen.low` was rounded to
    Observation seen{};
    std::vector<std::int64_t> waiting{};  ///< what other micro-batches saw, still on a GPU (Observation::pending)
    std::int64_t sampled = 0;             ///< elements of 16-bit gradients that were looked at
    std::int64_t zeros = 0;               ///< of these
    bool of_scores = false;               ///< of a forward call: query times key, which a softmax reads
    const void* stored = nullptr;         ///< where the first result of a forward call lies
    std::optional<SingularityDistance>
        singularity{};  ///< of a forward call of an op that states one, in steps that record limits
    std::optional<double>
        entropy{};  ///< of an attention, in the same steps: the smallest relative_entropy() of the micro-batches
    double zero_share() const { return sampled > 0 ? static_cast<double>(zeros) / static_cast<double>(sampled) : 0; }
  };
  /// By tape index, as long as the tape was. Micro-batches count together.
  std::span<const Slot> slots(Direction direction) const {
    const Tape& tape = direction == Direction::kForward ? forward_ : backward_;
    return std::span(tape.slots).first(tape.length);
  }
  /// The slot nearest to overflow.
  Headroom least(Direction direction) const;
  /// Every module of which something was observed, in the order in which they first ran.
  std::vector<ModuleHeadroom> by_module() const;
  /// What an op ("PATH/op") would have left if its results were stored in `dtype`; infinite for one that was not seen.
  double headroom_in(DType dtype, std::string_view target) const;

 private:
  /// An op that may have been given a mask, whose result is not known yet.
  struct Reader {
    std::int64_t tape_index = 0;
    std::vector<const void*> read{};
  };
  /// A look whose result lies on a GPU.
  struct Look {
    enum class At { kSingularity, kEntropy, kZeros };
    At at = At::kSingularity;
    std::int64_t tape_index = 0;
    std::int64_t number = 0, count = 1;  // of numbers_
    DType dtype = DType::f32;            // of an operand with a singularity
  };
  template <class F>
  void settle_with(F&& words_of);
  Slot& note(const OpCall& call, std::span<const Tensor> results, const Observation& seen);
  void forgive_masks(std::int64_t reader, const Observation& seen, std::span<const void* const> addresses);
  void forgive(std::int64_t before, const void* address);
  void look_at_limits(const OpCall& call, std::span<const Tensor> read, Slot& slot);
  void look_there(const OpCall& call, std::span<const Tensor> read, Slot& slot);
  void look_at_zeros(const OpCall& call, const Tensor& gradient, Slot& slot);
  void take_found(std::span<const double> found);

  struct Tape {
    std::vector<Slot> slots{};  // of the longest attempt so far: their memory is reused
    std::size_t length = 0;     // of this attempt's
  };
  Tape forward_, backward_;
  std::vector<const void*> may_be_masked_;  // what the op that runs now was given, where -inf is legal there
  std::vector<Reader> readers_;             // of this attempt, on a GPU
  std::vector<Look> pending_;               // of this attempt, on a GPU
  bool reads_scores_ = false;               // the op that runs now is the softmax of a composed attention
  DeviceNumbers numbers_;
  Probes probes_;
};

/// Headroom of one observation whose 16-bit part is `low`.
double headroom_of(const Observation& seen, DType low);

/// Whether values were seen on their way to `low`, none of them large enough to be anything but 0 there.
bool vanished(const Observation& seen, DType low);

}  // namespace binade::amp
