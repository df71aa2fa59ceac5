#include "binade/amp/verdict.h"

#include <cmath>

#include "binade/amp/text.h"
#include "binade/core/observation.h"

namespace binade::amp {
namespace {

/// Clears the sign of a NaN, so that it is printed as "nan" and not as "-nan".
double without_sign_of_nan(double x) { return std::isnan(x) ? std::abs(x) : x; }

std::string describe_gradients(const Attempt& attempt, const optim::ParameterList& parameters) {
  std::vector<std::string> with_nan, with_inf;
  for (std::size_t i = 0; i < attempt.scan.words.size(); ++i) {
    if (attempt.scan.words[i] > 0x7f800000u) with_nan.push_back(parameters[i]->name);
    if (attempt.scan.words[i] == 0x7f800000u) with_inf.push_back(parameters[i]->name);
  }
  std::string text;
  if (!with_nan.empty()) text += fmt::format("gradients are nan in {}", abbreviated(with_nan));
  if (!with_inf.empty())
    text += fmt::format("{}gradients are inf in {}", text.empty() ? "" : "; ", abbreviated(with_inf));
  return text;
}

std::string bad_weights(const optim::ParameterList& parameters) {
  std::vector<std::string> names;
  for (const optim::FlatParameters::Slice* slice : parameters)
    if (!all_finite(slice->variable.value())) names.push_back(slice->name);
  return names.empty() ? ""
                       : fmt::format("; weights are not finite in {}, which no step wrote: load a checkpoint",
                                     abbreviated(names));
}

}  // namespace

bool all_finite(const Tensor& tensor) {
  if (!tensor.defined() || !is_floating(tensor.dtype())) return true;
  const Tensor flat = tensor.on_host();
  return dispatch_float(flat.dtype(), "finite check", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = flat.data<T>();
    for (std::int64_t i = 0; i < flat.numel(); ++i)
      if (!std::isfinite(load(x[i]))) return false;
    return true;
  });
}

std::string first_non_finite_buffer(nn::Module& model) {
  ObservationScope all;
  for (const auto& [name, buffer] : nn::named_buffers(model))
    if (buffer->pending()) observe_into_scope(buffer->value());
  const Observation amax = all.take().synchronized();
  if (std::max(amax.low, amax.wide) < 0x7f800000u) return "";
  for (const auto& [name, buffer] : nn::named_buffers(model))
    if (buffer->pending() && !all_finite(buffer->value())) return name;
  return "";
}

AbortCause judge_gradients(const optim::GradientScan& scan) {
  if (scan.has_nan()) return AbortCause::kNan;
  return scan.finite() ? AbortCause::kNone : AbortCause::kOverflow;
}

std::string describe(const Attempt& attempt, const optim::ParameterList& parameters) {
  std::string where;
  if (attempt.bad_micro_batch >= 0) where += fmt::format(" in micro-batch {}", attempt.bad_micro_batch);
  if (attempt.bad_rank >= 0) where += fmt::format(" of rank {}", attempt.bad_rank);
  if (!attempt.phase().empty()) where += fmt::format(" in the phase of {}", attempt.phase());
  switch (attempt.cause) {
    case AbortCause::kNone: return "";
    case AbortCause::kLoss:
      return fmt::format("the loss is {}{}: the cause is in forward or in the data, not in the loss scale{}",
                         without_sign_of_nan(attempt.loss), where, bad_weights(parameters));
    case AbortCause::kStatistics:
      return fmt::format("the statistics {} would not be finite{}, though the loss is {}", attempt.bad_buffer, where,
                         attempt.loss);
    case AbortCause::kOverflow:
    case AbortCause::kNan:
      return fmt::format("{}{} at loss scale {}, though the loss is {}{}", describe_gradients(attempt, parameters),
                         where, attempt.loss_scale, attempt.loss, bad_weights(parameters));
    case AbortCause::kUpdate:
      return fmt::format(
          "the update would bring {} to {}, beyond the {} that it can hold (gradient norm {}, learning rate {})",
          attempt.proof.parameter, attempt.proof.largest, attempt.proof.limit, attempt.grad_norm, attempt.lr);
    case AbortCause::kSpike:
      return fmt::format("the loss is {}, far above recent losses (gradient norm {}, learning rate {})", attempt.loss,
                         attempt.grad_norm, attempt.lr);
    case AbortCause::kBadData:
      return attempt.bad_rank < 0 ? attempt.refused : fmt::format("rank {}: {}", attempt.bad_rank, attempt.refused);
    case AbortCause::kCorruption:
      return fmt::format("micro-batch {} was computed twice, with different {}, first in {} ({})",
                         attempt.mismatch->micro_batch, attempt.mismatch->other_ops ? "ops" : "bits",
                         quoted_op(attempt.mismatch->op, attempt.mismatch->module),
                         attempt.mismatch->direction == Direction::kForward ? "forward" : "backward");
    case AbortCause::kAverages: return "averaged weights are not finite, though the weights are";
  }
  return "";
}

}  // namespace binade::amp
