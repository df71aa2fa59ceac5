#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "binade/amp/checksum_mismatch.h"
#include "binade/nn/module.h"
#include "binade/optim/gradient_scan.h"
#include "binade/optim/optimizer.h"
#include "binade/optim/parameter_list.h"

namespace binade::amp {

/// Reason why an attempt cannot be committed.
enum class AbortCause : std::uint8_t {
  kNone,
  kLoss,        ///< the loss of a micro-batch is not finite, independently of the loss scale
  kStatistics,  ///< a buffer that forward writes (batch-norm statistics) would not be finite
  kOverflow,    ///< gradients hold infinities, but no NaN
  kNan,         ///< gradients hold NaN although the loss is finite
  kUpdate,      ///< gradients are finite, but the updated weights or moments would not be
  kSpike,       ///< everything is finite, but the loss is absurdly high (SpikeGuard)
  kBadData,     ///< the closure threw a DataError: an op has no result for an element of the batch, such as a label
  kCorruption,  ///< two computations of the same micro-batch had different bits (TrainerOptions::verify_every)
  kAverages,    ///< everything is finite, except averaged weights, which were bad before the step
};

/// The update of one optimizer.
struct OptimizerUpdate {
  std::size_t optimizer = 0;  ///< index in Transaction::optimizers()
  optim::StepInput input{};
};

/// The results of one phase of an attempt.
struct PhaseAttempt {
  std::string name{};                      ///< names of the optimizers; empty if the step has a single phase
  double loss = 0;                         ///< mean over micro-batches, unscaled
  double grad_norm = 0;                    ///< of the parameters that the phase trains; unscaled, before clipping
  std::vector<OptimizerUpdate> updates{};  ///< empty unless the phase could be committed
};

/// The facts about one attempt at a step that decide between commit and abort, and that reports quote.
struct Attempt {
  std::int64_t step = 0;
  double loss_scale = 1;
  int micro_batches = 1;     ///< number of micro-batches that are not left out
  int bad_micro_batch = -1;  ///< first micro-batch with a non-finite loss, buffer or gradient; -1: none, or unknown
  int bad_rank = -1;         ///< rank that computed bad_micro_batch; -1: unknown, or there is one rank
  /// Mean over micro-batches, unscaled. In a step of several phases the sum of their losses or, if the attempt is
  /// aborted, the loss of the phase to blame.
  double loss = 0;
  double lr = 0;      ///< learning rate of the first optimizer or, if its update is to blame, of another one
  double lr_cut = 1;  ///< factor of remedies and faults on the learning rate; `lr` includes it
  /// Magnitudes of the accumulated gradients, which are multiplied by the loss scale; one word per parameter of
  /// Transaction::parameters()
  optim::GradientScan scan{};
  double grad_norm = 0;        ///< unscaled, before clipping
  double clip_factor = 1;      ///< factor of clipping by norm on the gradients
  std::string refused{};       ///< text of the DataError, if cause is kBadData
  std::string bad_buffer{};    ///< path of the first buffer whose new value is not finite; empty: none
  optim::UpdateProof proof{};  ///< result of the check that the updated weights and moments are finite
  AbortCause cause = AbortCause::kNone;
  bool verified = false;                       ///< one micro-batch was computed twice, and compared
  std::optional<ChecksumMismatch> mismatch{};  ///< set if cause is kCorruption
  std::vector<PhaseAttempt> phases{};          ///< those that were run

  bool commits() const { return cause == AbortCause::kNone; }
  /// Returns the name of the phase to blame; an empty text if the attempt commits or has a single phase.
  std::string phase() const { return commits() || phases.empty() ? "" : phases.back().name; }
  /// Returns the factor from accumulated, scaled gradients to the gradient of the mean loss.
  double inverse_scale() const { return 1 / (loss_scale * micro_batches); }
};

using StepState [[deprecated("use Attempt")]] = Attempt;

/// Returns the path of the first buffer whose uncommitted value is not finite; empty if there is none.
std::string first_non_finite_buffer(nn::Module& model);

/// True if no element is a NaN or an infinity. Integer tensors are finite.
bool all_finite(const Tensor& tensor);

/// Returns kNan, kOverflow or kNone.
AbortCause judge_gradients(const optim::GradientScan& scan);

/// Describes an abort in one line: the cause, the parameters or the buffer concerned, and the weights that are not
/// finite.
std::string describe(const Attempt& attempt, const optim::ParameterList& parameters);

}  // namespace binade::amp
