#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "binade/nn/module.h"
#include "binade/optim/gradient_scan.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// Why an attempt cannot be committed.
enum class AbortCause : std::uint8_t {
  kNone,
  kLoss,        ///< the loss of a micro-batch is not finite: forward, whatever the scale
  kStatistics,  ///< a buffer that forward wrote (batch-norm statistics) is not finite
  kOverflow,    ///< gradients hold infinities, no NaN
  kNan,         ///< gradients hold NaN although the loss is finite
  kUpdate,      ///< gradients are finite, what the optimizer would write is not
  kSpike,       ///< everything is finite, and the loss is absurd beside those before
};

/// What one attempt at a step found out: the facts that decide between commit and abort, and that reports quote.
struct Attempt {
  std::int64_t step = 0;
  double loss_scale = 1;
  int micro_batches = 1;     ///< that count
  int bad_micro_batch = -1;  ///< the first that brought something non-finite; -1: none, or not known
  double loss = 0;           ///< mean over micro-batches, unscaled
  double lr = 0;
  optim::GradientScan scan{};  ///< of the scaled, summed gradients
  double grad_norm = 0;        ///< unscaled, before clipping
  double clip_factor = 1;
  std::string bad_buffer{};
  optim::UpdateProof proof{};
  AbortCause cause = AbortCause::kNone;

  bool commits() const { return cause == AbortCause::kNone; }
  double inverse_scale() const { return 1 / (loss_scale * micro_batches); }
};

using StepState [[deprecated("use Attempt")]] = Attempt;

/// The path of the first buffer below `model` whose shadow holds a non-finite value; empty when there is none.
std::string first_bad_buffer(nn::Module& model);

/// False for a NaN or an infinity anywhere. Integer tensors are finite.
bool all_finite(const Tensor& tensor);

/// Sets the cause that the gradients speak for: kNan, kOverflow or kNone.
AbortCause judge_gradients(const optim::GradientScan& scan);

/// What is known about an abort, as one line for people: cause, the parameters or the buffer concerned, and weights
/// that are not finite themselves.
std::string describe(const Attempt& attempt, optim::FlatParameters& parameters);

}  // namespace binade::amp
