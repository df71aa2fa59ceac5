#pragma once

#include <functional>
#include <string>
#include <vector>

#include "binade.h"
#include "tests/faults/card.h"
#include "tests/faults/models.h"
#include "tests/faults/spot.h"

namespace binade::faults {

/// The micro-batch that planted code runs on. The *marked sample* is the sample that has the fault.
struct Now {
  std::int64_t rows = 0;      ///< number of rows of this micro-batch
  std::int64_t row = -1;      ///< row of the marked sample in this micro-batch; -1: not in it
  bool marked_batch = false;  ///< this micro-batch is part of the batch with the marked sample
  bool reached = false;       ///< the batch with the marked sample is this one or an earlier one
  std::int64_t runs = 0;      ///< number of closure runs on the marked sample, including this one

  bool here() const { return row >= 0; }
};

/// The fault that a family plants at a spot. Members that are not set change nothing.
struct Plan {
  Card card{};
  /// When `site` and `loss` run: in micro-batches with the marked sample, in its whole batch, or from that batch on.
  enum class Strikes : std::uint8_t { kSample, kBatch, kAlways } strikes = Strikes::kSample;
  std::function<Variable(const Variable& x, const Now&)> site{};  ///< code between two layers
  /// Code in the closure.
  std::function<Variable(const Variable& loss, const Variable& logits, const Batch&, const Now&)> loss{};
  std::function<void(Batch&, const Now&)> data{};  ///< changes the batch with the marked sample as it is read
  /// Runs once, before the marked step.
  std::function<void(Model&, optim::Optimizer&, amp::Trainer&)> state{};
  std::function<void(Model&)> initialize{};  ///< runs before the first step
  std::vector<std::string> inject{};         ///< fire drills, as for --inject
  std::optional<amp::LossScaleOptions> loss_scale{};
  double adam_eps = 1e-8;
  bool composed = false;  ///< attention as separate ops
};

/// One kind of fault: where it can be planted, and how.
struct Family {
  const char* name{};
  const char* theme{};  ///< the file of tests/faults that contains it
  Plan (*plant)(const Spot&);
  std::vector<ModelKind> models{ModelKind::kMlp, ModelKind::kGpt, ModelKind::kUNet};
  std::vector<std::string> precisions{"fp32", "bf16", "fp16"};
  std::int64_t micro_batches = 1;
};

inline const std::vector<std::string> kFp16 = {"fp16"};
inline const std::vector<std::string> kFp32 = {"fp32"};
inline const std::vector<std::string> kWide = {"fp32", "bf16"};

std::vector<Family> poles();
std::vector<Family> norms();
std::vector<Family> attention_faults();
std::vector<Family> losses();
std::vector<Family> overflows();
std::vector<Family> gradients();
std::vector<Family> data_faults();
std::vector<Family> state_faults();
std::vector<Family> hardware_faults();
std::vector<Family> controls();
/// The families of all themes.
std::vector<Family> all_families();

/// A card for an op in the spot's site that fails in the marked sample only.
inline Card at_site(const Spot& spot, std::string op, std::string direction, std::vector<std::string> values,
                    std::vector<CauseClass> causes, const std::vector<std::string>& remedies = kLeaveOut) {
  return {.place = Place{spot.site_path(), std::move(op), std::move(direction)},
          .values = std::move(values),
          .sample = spot.row,
          .causes = std::move(causes),
          .remedies = remedies};
}
/// A card for an op in the closure, outside of every module.
inline Card in_closure(const Spot& spot, std::string op, std::string direction, std::vector<std::string> values,
                       std::vector<CauseClass> causes) {
  Card card = at_site(spot, std::move(op), std::move(direction), std::move(values), std::move(causes));
  card.place->module = "";
  return card;
}
/// Returns `plan` with the fault in every sample of the batch instead of the marked one.
inline Plan of_whole_batch(Plan plan, const std::vector<std::string>& remedies = kSkip) {
  plan.card.sample.reset();
  plan.card.remedies = remedies;
  plan.strikes = Plan::Strikes::kBatch;
  return plan;
}

/// A factor for each row of x, with shape (rows, 1, …): `here` for the marked sample, `elsewhere` for the others.
Variable marks(const Now& now, const Variable& x, double here, double elsewhere);
/// The same factors with shape (rows).
Variable per_sample(const Now& now, double here, double elsewhere);
/// The elements of the marked row of a batch's tensor, for writing.
std::span<float> marked_row(Tensor& tensor, const Now& now);
/// v in the shape of x.
inline Variable reshape_like(const Variable& v, const Variable& x) {
  return reshape(v, {x.shape().dims().begin(), x.shape().dims().end()});
}
/// (x^2 + 1) * marks(here, 1): positive, except that the marked sample is multiplied by `here` (usually 0).
inline Variable positive_but(const Now& now, const Variable& x, double here) {
  return (square(x) + 1.0) * marks(now, x, here, 1);
}

}  // namespace binade::faults
