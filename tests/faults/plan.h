#pragma once

#include <functional>
#include <string>
#include <vector>

#include "binade.h"
#include "tests/faults/card.h"
#include "tests/faults/models.h"
#include "tests/faults/spot.h"

namespace binade::faults {

/// What user code can tell about the batch it is run on.
struct Now {
  std::int64_t rows = 0;      ///< of this micro-batch
  std::int64_t row = -1;      ///< of the marked sample in it; -1: it is not here
  bool marked_batch = false;  ///< it holds samples of the marked step's batch, though perhaps not the marked one
  bool reached = false;       ///< the marked batch is here or was before
  std::int64_t runs = 0;      ///< times that the closure ran on the marked sample, this run among them

  bool here() const { return row >= 0; }
};

/// What a family plants at a spot. Code that is left out is that of a healthy program.
struct Plan {
  Card card{};
  /// When `site` and `loss` run: where the marked sample is, in the whole batch that it belongs to, or from there on.
  enum class Strikes : std::uint8_t { kSample, kBatch, kAlways } strikes = Strikes::kSample;
  std::function<Variable(const Variable& x, const Now&)> site{};  ///< user code between two layers
  /// User code in the closure.
  std::function<Variable(const Variable& loss, const Variable& logits, const Batch&, const Now&)> loss{};
  std::function<void(Batch&, const Now&)> data{};  ///< what the data set gives for the batch with the marked sample
  /// Once, before the marked step.
  std::function<void(Model&, optim::Optimizer&, amp::Trainer&)> state{};
  std::function<void(Model&)> initialize{};  ///< before the first step
  std::vector<std::string> inject{};         ///< fire drills
  std::optional<amp::LossScaleOptions> loss_scale{};
  double adam_eps = 1e-8;
  bool composed = false;  ///< attention as separate ops
};

/// One kind of fault: where it can be planted, and how.
struct Family {
  const char* name{};
  const char* theme{};  ///< the file that contains it
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
/// All of them.
std::vector<Family> all_families();

/// A card for an op in the spot's site that goes wrong in the marked sample alone.
inline Card at_site(const Spot& spot, std::string op, std::string direction, std::vector<std::string> values,
                    std::vector<CauseClass> causes, const std::vector<std::string>& remedies = kLeaveOut) {
  return {.place = Place{spot.site_path(), std::move(op), std::move(direction)},
          .values = std::move(values),
          .sample = spot.row,
          .causes = std::move(causes),
          .remedies = remedies};
}
/// The same for an op in the closure, outside of every module.
inline Card in_closure(const Spot& spot, std::string op, std::string direction, std::vector<std::string> values,
                       std::vector<CauseClass> causes) {
  Card card = at_site(spot, std::move(op), std::move(direction), std::move(values), std::move(causes));
  card.place->module = "";
  return card;
}
/// The same plan where every sample of the batch is concerned.
inline Plan of_whole_batch(Plan plan, const std::vector<std::string>& remedies = kSkip) {
  plan.card.sample.reset();
  plan.card.remedies = remedies;
  plan.strikes = Plan::Strikes::kBatch;
  return plan;
}

/// (rows, 1, …) of x's rank: `here` for the marked sample, `elsewhere` for the others.
Variable marks(const Now& now, const Variable& x, double here, double elsewhere);
/// A number per sample, (rows).
Variable per_sample(const Now& now, double here, double elsewhere);
/// The marked row of a batch's tensor, to be overwritten.
std::span<float> marked_row(Tensor& tensor, const Now& now);
/// v in the shape of x.
inline Variable reshape_like(const Variable& v, const Variable& x) {
  return reshape(v, {x.shape().dims().begin(), x.shape().dims().end()});
}
/// x^2 + 1 in f32, times marks: positive everywhere, but 0 (or what `here` makes of it) in the marked sample.
inline Variable positive_but(const Now& now, const Variable& x, double here) {
  return (square(x) + 1.0) * marks(now, x, here, 1);
}

}  // namespace binade::faults
