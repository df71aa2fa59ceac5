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

// An incident as plain data: where it happened (FirstBad), why (Diagnosis), what the trainer did (Remedy).
namespace binade::amp {

/// A place in the source of the user's program, as far as it is known.
struct SourcePlace {
  std::string function{};  ///< "Net::forward"; "a lambda in main"; empty if the program has no symbols
  std::string file{};      ///< empty if the program was compiled without debug information (-g)
  int line = 0;            ///< 0 if `file` is empty

  /// Returns "Net::forward (model.cpp:41)", or the part of it that is known.
  std::string text() const;
};

/// Return addresses of a call stack, innermost first.
using CallStack = std::vector<void*>;

/// The first op of a step whose operands were finite and whose result was not.
struct FirstBad {
  std::string module{};          ///< path of the innermost module of the op; empty at the root
  std::string op{};              ///< name of the op
  const OpInfo* info = nullptr;  ///< the op's contract
  std::string direction{};       ///< "input", "forward", "backward", "optimizer", "state"
  std::string tensor{};          ///< the bad tensor: "output", "gradient of x", "input", path of a parameter or buffer
  std::string parameter{};       ///< path of the parameter, if the bad tensor is a parameter or its gradient
  std::string dtype{};
  std::string value{};                      ///< "inf", "-inf", "nan"; "refused" if the op threw a DataError
  std::string refusal{};                    ///< its message then: "wanted targets from 0 to 2, got 99 at (3)"
  std::string refusal_advice{};             ///< the advice in its message: "use pinv()"; may be empty
  std::vector<std::int64_t> shape{};        ///< extents of the bad tensor
  std::vector<std::int64_t> index{};        ///< index of the bad element, one number per dimension
  std::optional<std::int64_t> sample{};     ///< row of the step's whole batch, if exactly one is affected
  std::optional<std::int64_t> sample_id{};  ///< number of that sample in the data set
  std::vector<std::int64_t> samples{};      ///< all affected rows, if known
  /// Sets of rows to which the bad elements may belong: one set for each layout that the tensor's shape allows. Any
  /// dimension whose extent is a multiple of the batch may hold the samples. In it, a sample may have consecutive
  /// indices, or every batch-th index.
  std::vector<std::vector<std::int64_t>> possible_samples{};
  std::vector<double> operand_max{};       ///< largest magnitude of each operand
  CallStack call_stack{};                  ///< at the op's call; empty in a Diagnosis, which has `called_by` instead
  std::optional<SourcePlace> called_by{};  ///< the place in the user's program that called the op or its layer
  std::int64_t step = 0;  ///< the failed step; for "state" the step before it, which committed the bad state
  std::int64_t micro_batch = 0;
  std::int64_t tape_index = -1;
  bool in_loss = false;              ///< no later op reads a weight, so the op belongs to the loss function
  bool at_singularity = false;       ///< an operand was in the range of a stated singularity
  bool is_attention_scores = false;  ///< the result is query times key: a product of activations that a softmax reads
  bool of_sum = false;               ///< the gradients were finite, but their sum is not
  bool of_mask = false;              ///< the only non-finite operand values were the -inf of masks
  bool of_masked_row = false;        ///< as of_mask, and a row of an operand contains only -inf
  /// Path of the module that called the op, if `module` is a submodule whose parameters the op read: "attention" for
  /// "attention.key".
  std::optional<std::string> caller{};
  /// Returns the path of the module that called the op.
  const std::string& op_path() const { return caller ? *caller : module; }
  /// True if the op is `Op`.
  template <class Op>
  bool is() const {
    return info == &Op::info;
  }
};

/// The plans with which a GPU library computed a wrong result.
struct LibraryFault {
  std::string library{};             ///< name and version: "cudnn 9.19.0"
  std::vector<std::string> keys{};   ///< the keys of the plans: operation, dtypes, shapes, layouts
  std::vector<std::string> plans{};  ///< one line per plan, as in gpus::plans(), with its kernel or engine
};

/// The cause of an incident. The diagnosis reports kNotProven rather than a wrong cause.
enum class CauseClass : std::uint8_t {
  kLossScaleOverflow,         ///< gradients fit at a lower loss scale
  kGradientExplosion,         ///< gradients or the update are too large at any loss scale
  kActivationOverflow,        ///< a result exceeds the range of its dtype
  kAttentionLogitOverflow,    ///< the product of query and key exceeds the range of its dtype
  kFullyMaskedRow,            ///< every key of a softmax is masked
  kNormalizationSingularity,  ///< a norm divided by a variance of 0
  kArithmeticSingularity,     ///< log, division, sqrt or pow at its singularity
  kLossFunctionSingularity,   ///< a loss function at its singularity
  kOptimizerUnderflow,        ///< a denominator of the update became 0
  kBadInput,                  ///< the batch holds a NaN or an infinity
  kCorruptedState,            ///< a weight or a buffer was not finite before the step began
  kReductionOverflow,         ///< a sum exceeds the range of its dtype
  kSilentUnderflow,           ///< values become 0 when they are rounded
  kNotReproducible,           ///< a replay gave different bits: a race, or the hardware
  kNotProven,
  kRoundedConstant,  ///< rounding to 16 bits put an operand at a singularity, because an eps, a floor or a bound was
                     ///< rounded away
  kLibraryFault,     ///< a library computed a wrong result, which other engines compute correctly
  kNormalizationPole [[deprecated("use kNormalizationSingularity")]] = kNormalizationSingularity,
  kArithmeticPole [[deprecated("use kArithmeticSingularity")]] = kArithmeticSingularity,
  kLossFunctionPole [[deprecated("use kLossFunctionSingularity")]] = kLossFunctionSingularity,
};
std::string_view name_of(CauseClass cause);

/// How sure the diagnosis is of a cause (hypotheses.h).
enum class Confidence : std::uint8_t { kProven, kLikely, kNotProven };
std::string_view name_of(Confidence confidence);

/// A replay of the step with one change, and its outcome.
struct Proof {
  std::string variant{};  ///< the change, such as a lower loss scale
  bool finite = false;
};

/// The result of the search for the cause of an incident.
struct Diagnosis {
  std::optional<FirstBad> first_bad{};
  CauseClass cause = CauseClass::kNotProven;
  Confidence confidence = Confidence::kNotProven;
  std::vector<Proof> proof{};
  std::string advice{};                   ///< recommended change, for the author of the model
  std::optional<LibraryFault> library{};  ///< set if the cause is kLibraryFault
  int replays = 0;                        ///< number of replays that the diagnosis made
  bool op_is_wrong = false;               ///< true if the first bad op is not finite for any operands that were tried
  bool reproducible = true;               ///< false: a replay without a change gave other bits than the failed attempt

  // Changes that made the step finite. They determine the remedy.
  std::vector<std::string> promote{};   ///< override targets: the step was finite with all of them in f32
  std::vector<std::int64_t> samples{};  ///< rows to leave out
  bool earlier_weights = false;         ///< true if the weights of an earlier checkpoint made the step finite
};

/// Returns the recommended change (Diagnosis::advice) for the cause that a diagnosis found.
std::string advise(const Diagnosis& diagnosis);

/// How training continues after an incident, the cheapest action first.
enum class RemedyAction : std::uint8_t {
  kNone,              ///< retries the step unchanged
  kLowerScale,        ///< retries at a loss scale that a replay showed to fit
  kPromoteOp,         ///< computes the ops that caused the incident in f32 for a while
  kQuarantineSample,  ///< leaves out the samples that caused the incident, now and later
  kSkipBatch,         ///< skips the batch or one micro-batch
  kRollback,          ///< continues from an earlier checkpoint
  kStop,              ///< throws a NumericError, or a DataError if the closure threw one
  kMendAverages,      ///< replaces averaged weights that were not finite
  kQuarantinePlan,    ///< replaces wrong library plans by Binade's own kernels, on this machine from now on
};
std::string_view name_of(RemedyAction action);

/// The action that followed an incident.
struct Remedy {
  RemedyAction action = RemedyAction::kStop;
  std::string what{};           ///< description of the action
  std::string target{};         ///< "blocks.2.attention/matmul", "sample 17", "step 400"
  std::int64_t until_step = 0;  ///< last step of the remedy; 0: permanent
  std::int64_t steps_lost = 0;  ///< committed updates to repeat, or batches skipped
  double throughput_ratio = 0;  ///< speed with the remedy / speed of the step before; 0: not measured
  double memory_ratio = 0;      ///< peak tensor memory with the remedy / peak tensor memory of the step before
  bool verified = false;        ///< a replay with the remedy was finite
};

/// A step that could not be committed. An overflow that a lower loss scale avoids is no incident.
struct Incident {
  std::int64_t step = 0;
  std::int64_t attempt = 1;  ///< number of the failed attempt at the step, from 1 on
  std::string what{};        ///< one-line summary of the failure
  Diagnosis diagnosis{};
  Remedy remedy{};
  bool drill = false;                      ///< a fault was injected into this step
  bool warning = false;                    ///< an evaluation failed; training is not affected
  std::string no_capsule{};                ///< reason why no repro bundle could be written; may be empty
  std::vector<ModuleHeadroom> headroom{};  ///< headroom of the modules in the failed attempt
};
std::ostream& operator<<(std::ostream& out, const Incident& incident);

}  // namespace binade::amp
