#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "binade/amp/watch/headroom.h"

namespace binade {
struct OpInfo;
}

// What is known about an incident, as plain data: where (FirstBad), why (Diagnosis), what was done (Remedy).
namespace binade::amp {

/// The first place of a step where what went in was finite and what came out was not.
struct FirstBad {
  std::string module{};          ///< innermost path of the op, or of the part of it that is to blame; empty at the root
  std::string op{};              ///< its name
  const OpInfo* info = nullptr;  ///< its contract, which says what may go wrong in it
  std::string direction{};       ///< "input", "forward", "backward", "optimizer", "state"
  std::string tensor{};          ///< which one: "output", "gradient of x", "input", a parameter's or buffer's path
  std::string parameter{};       ///< path of the parameter, if the bad tensor is a parameter or its gradient
  std::string dtype{};
  std::string value{};                      ///< "inf", "-inf", "nan"
  std::vector<std::int64_t> index{};        ///< of the element
  std::optional<std::int64_t> sample{};     ///< row of the step's whole batch, where exactly one is concerned
  std::optional<std::int64_t> sample_id{};  ///< what the data set calls it
  std::vector<std::int64_t> samples{};      ///< all rows concerned, where that can be told
  std::vector<double> operand_max{};        ///< largest magnitude of each operand
  std::int64_t step = 0;  ///< the step that went wrong; for "state" the one before, whose commit left it so
  std::int64_t micro_batch = 0;
  std::int64_t tape_index = -1;
  bool in_loss = false;         ///< no op behind it reads a weight: it belongs to what the step is judged by
  bool at_singularity = false;  ///< an operand lay in the range that its contract calls a singularity
  bool of_scores = false;       ///< its result is query times key: a product of two activations that a softmax reads
  bool of_mask = false;         ///< its operands were finite but for the -inf of masks
  /// The op's path where `module` is a part of it: "attention" for the "attention.key" of its projections.
  std::optional<std::string> whole{};
  const std::string& op_path() const { return whole ? *whole : module; }
  template <class Op>
  bool is() const {
    return info == &Op::info;
  }
};

/// Why a step went wrong. "Not proven" is an honest answer; a confident wrong one is the worst there is.
enum class CauseClass : std::uint8_t {
  kLossScaleOverflow,         ///< gradients fit at a lower loss scale
  kGradientExplosion,         ///< gradients or the update are too large whatever the scale
  kActivationOverflow,        ///< a result is beyond the range of its 16-bit dtype
  kAttentionLogitOverflow,    ///< the same, of query times key
  kFullyMaskedRow,            ///< a softmax over nothing
  kNormalizationSingularity,  ///< a norm divided by a spread of 0
  kArithmeticSingularity,     ///< log, division, sqrt or pow at its singularity
  kLossFunctionSingularity,   ///< the same inside a loss
  kOptimizerUnderflow,        ///< a denominator of the update became 0
  kBadInput,                  ///< the batch holds something that is not finite
  kCorruptedState,            ///< a weight or a buffer was not finite before the step began
  kReductionOverflow,         ///< a sum is beyond the range of its dtype
  kSilentUnderflow,           ///< values vanish to 0
  kNotReproducible,           ///< the same step gave other bits: a race, or the hardware
  kNotProven,
  kNormalizationPole [[deprecated("use kNormalizationSingularity")]] = kNormalizationSingularity,
  kArithmeticPole [[deprecated("use kArithmeticSingularity")]] = kArithmeticSingularity,
  kLossFunctionPole [[deprecated("use kLossFunctionSingularity")]] = kLossFunctionSingularity,
};
std::string_view name_of(CauseClass cause);

enum class Confidence : std::uint8_t { kProven, kLikely, kNotProven };
std::string_view name_of(Confidence confidence);

/// The step once more with one thing changed, and whether that made it finite.
struct Proof {
  std::string variant{};
  bool finite = false;
};

struct Diagnosis {
  std::optional<FirstBad> first_bad{};
  CauseClass cause = CauseClass::kNotProven;
  Confidence confidence = Confidence::kNotProven;
  std::vector<Proof> proof{};
  std::string advice{};  ///< what to change, for the person who wrote the model
  int replays = 0;       ///< number of replays that the diagnosis needed
  bool reproducible = true;

  // Changes that made the step finite, for whoever chooses a remedy.
  std::vector<std::string> promote{};   ///< compute these ops in f32, all of them together; named as in overrides
  std::vector<std::int64_t> samples{};  ///< without these rows
  bool earlier_weights = false;         ///< with the weights of the newest good checkpoint
};

/// What to change, for the person who wrote the model.
std::string advise(const Diagnosis& diagnosis);

/// What an incident leads to, the cheapest first.
enum class RemedyAction : std::uint8_t {
  kNone,              ///< the step is run once more, as it was
  kLowerScale,        ///< at a loss scale that proved to fit
  kPromoteOp,         ///< with the ops to blame in f32, for a while
  kQuarantineSample,  ///< without the samples to blame, which never come again
  kSkipBatch,         ///< with the next batch, or without a micro-batch
  kRollback,          ///< from an earlier checkpoint
  kStop,              ///< not at all: a NumericError
};
std::string_view name_of(RemedyAction action);

struct Remedy {
  RemedyAction action = RemedyAction::kStop;
  std::string what{};           ///< the same in words
  std::string target{};         ///< the target of the remedy: "blocks.2.attention/matmul", "sample 17", "step 400"
  std::int64_t until_step = 0;  ///< when it ends by itself; 0: it does not
  std::int64_t steps_lost = 0;  ///< committed updates that are done again, or batches passed over
  double throughput_ratio = 0;  ///< speed of the step with it over that of the step before; 0: not measured
  double memory_ratio = 0;      ///< the same of the most tensor memory a step needs
  bool verified = false;        ///< a replay with it was finite
};

/// Something about a step that the loss scale does not explain.
struct Incident {
  std::int64_t step = 0;
  std::int64_t attempt = 1;
  std::string what{};  ///< a one-line summary of the failure
  Diagnosis diagnosis{};
  Remedy remedy{};                         ///< the remedy that was applied
  bool drill = false;                      ///< a fault was planted in this step
  bool warning = false;                    ///< an evaluation failed; training is not affected
  std::string no_capsule{};                ///< why there is no capsule, if one was wanted (set_capsule_sink)
  std::vector<ModuleHeadroom> headroom{};  ///< of the attempt, by module
};
std::ostream& operator<<(std::ostream& out, const Incident& incident);

}  // namespace binade::amp
