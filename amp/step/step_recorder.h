#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/amp/policy.h"
#include "binade/amp/watch/telemetry.h"
#include "binade/core/memory_plan.h"
#include "binade/core/recording.h"
#include "binade/core/runtime.h"
#include "binade/core/state_dict.h"
#include "binade/core/step_kernels.h"
#include "binade/nn/module.h"
#include "binade/optim/ema.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// Makes steps on a device that records (core/recording.h): forward, backward, verdict, update and commits are sent as
/// one piece of work, which the device decides about by itself (core/step_kernels.h). The host neither runs the closure
/// nor waits within the step, and may send the next ones before it has heard of it: where the device does not commit
/// one, it does not commit those behind it.
///
/// A kind of step (dtypes and shapes of its batch, policy, closure, looks) is made op by op the first time, so that
/// libraries choose their algorithms. Then it is rehearsed, which shows what memory it takes, and recorded. The
/// recording is believed when a step that it makes without committing has come to the bits that the same step comes to
/// op by op; that is looked at again now and then, since a closure may read what changes without anybody knowing. The
/// eight kinds used last are kept.
///
/// All work in one arena: where a kind needs a larger one, the others are recorded again when they come. Steps made op
/// by op may lie there too (LentArenas); a recorded step drops the gradients that the last one left.
class StepRecorder {
 public:
  StepRecorder(Runtime& runtime, nn::Module& model, optim::Optimizer& optimizer, optim::Ema* ema);
  ~StepRecorder();
  StepRecorder(const StepRecorder&) = delete;
  StepRecorder& operator=(const StepRecorder&) = delete;

  /// A step to make.
  struct Step {
    std::int64_t number = 0;
    std::string maths{};             ///< names the closure
    std::vector<StateDict> batch{};  ///< one per micro-batch
    /// The closure on a batch that lies where recorded steps have theirs.
    std::function<Variable(int part, const StateDict& batch)> loss{};
    Policy policy{};
    double loss_scale = 1;
    optim::StepInput input{};  ///< the device computes clip_factor
    double clip_norm = 0;
    double loss_bound = 0;
    bool telemetry = true;
    Telemetry::Looks looks{};  ///< of its telemetry
    bool compare =
        false;  ///< do not commit; the caller computes the step op by op and passes the result to made_op_by_op()
  };
  /// The result of a step.
  struct Outcome {
    bool commits() const { return cause == Undecided::kNone; }
    Undecided cause = Undecided::kNone;  ///< kNone: committed, in the device's memory; see committed()
    double loss = 0;
    optim::GradientScan scan{};
    std::vector<BlockExtremes> extremes{};
  };

  /// Makes the step; nothing where it is not one for this device yet: the caller makes it op by op then, as it does
  /// when the outcome is no commit. `seen` is what telemetry saw. Throws what the closure throws.
  std::optional<Outcome> make(const Step& step, Telemetry& seen);

  /// Steps that can be under way at once.
  static constexpr std::size_t kMostUnderWay = 8;
  /// Sends the step behind those that are under way, without waiting. False where a believed recording of its kind is
  /// not at hand, or nobody can tell that its update would be finite: nothing was sent then, and it is one for make(),
  /// when nothing is under way. A step under way is not compared and has loss_scale, input and loss_bound of its own
  /// number.
  bool send(const Step& step);
  std::size_t under_way() const;
  /// Waits for the oldest that is under way. Where it was not committed, nothing is under way any more. Otherwise
  /// committed() comes next.
  Outcome bring(Telemetry& seen);

  /// The step of the last make() came to this op by op: whether a recording that came to something else is at hand. It
  /// is not used any more then.
  void made_op_by_op(double loss, const optim::GradientScan& scan);
  /// Takes a commit over into what the host knows.
  void committed(const Outcome& outcome);
  /// Forgets all recordings: what they were made of has changed.
  void forget();
  /// Whether any is held, with its memory.
  bool holds_recordings() const;

  /// Why steps are not recorded, a line each, that have not been told before.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct Kind;
  struct Exchange;
  struct Sent;
  Kind& kind_of(const Step& step);
  bool prepare(Kind& kind, const Step& step);
  bool clear_arena();
  void drop_smaller(const Kind& kind, const MemoryTrace& trace);
  void refuse(Kind& kind, std::string_view why);
  void write_numbers(const Kind& kind, const Step& step, const optim::Optimizer::DeviceUpdate& update);
  void write_batch(Kind& kind, const Step& step) const;
  void body(Kind& kind, const Step& step);
  void record(Kind& kind, const Step& step, const Telemetry& seen);
  void run(Kind& kind, const Step& step, optim::Optimizer::DeviceUpdate update);
  void wait_for_all() noexcept;

  Runtime& runtime_;
  nn::Module& model_;
  optim::Optimizer& optimizer_;
  optim::Ema* ema_;
  std::unique_ptr<Exchange> exchange_;
  std::vector<Sent> sent_;                    // under way, oldest first
  std::vector<std::unique_ptr<Kind>> kinds_;  // the one used last comes first
  std::optional<Outcome> to_compare_;         // of the kind used last
  bool held_up_ = false;                      // the last step found the arena in use
  std::vector<std::string> notes_;
};

}  // namespace binade::amp
