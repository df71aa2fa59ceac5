// Norms of constant values, with eps = 0.
#include "tests/faults/plan.h"
#include "tests/faults/user_ops.h"

namespace binade::faults {
namespace {

using enum CauseClass;

/// `norm` in the site, of a value that is 0 throughout the marked sample.
template <class F>
Plan over_a_constant(const Spot& s, const char* op, F&& norm) {
  return {.card = at_site(s, op, "forward", {"nan"}, {kNormalizationSingularity}),
          .site = [norm = std::forward<F>(norm)](const Variable& x, const Now& now) {
            return x + 0.05 * norm(positive_but(now, x, 0) + x * marks(now, x, 0, 1));
          }};
}

Plan layer_norm_without_eps(const Spot& s) {
  return over_a_constant(s, "layer_norm", [](const Variable& x) { return layer_norm(x, {}, {}, 0); });
}

Plan rms_norm_without_eps(const Spot& s) {
  return over_a_constant(s, "rms_norm", [](const Variable& x) { return rms_norm(x, {}, 0); });
}

Plan group_norm_without_eps(const Spot& s) {
  return over_a_constant(s, "group_norm", [](const Variable& x) { return group_norm(x, 1, {}, {}, {.eps = 0}); });
}

Plan batch_norm_without_eps(const Spot& s) {
  return of_whole_batch({.card = at_site(s, "batch_norm", "forward", {"nan"}, {kNormalizationSingularity}),
                         .site = [](const Variable& x, const Now&) {
                           const Tensor one = Tensor::full({x.shape().cols()}, 1),
                                        zero = Tensor::zeros({x.shape().cols()});
                           return x + batch_norm(x * 0.0, one, zero, {.eps = 0}).y;
                         }});
}

Plan eps_that_rounds_to_zero(const Spot& s) {
  return over_a_constant(s, "own_norm", [](const Variable& x) { return apply_one<OwnNorm>({}, {x}); });
}

}  // namespace

std::vector<Family> norms() {
  return {{"layer-norm-without-eps", "norms", layer_norm_without_eps},
          {"rms-norm-without-eps", "norms", rms_norm_without_eps},
          {"group-norm-without-eps", "norms", group_norm_without_eps, {ModelKind::kUNet}},
          {"batch-norm-without-eps", "norms", batch_norm_without_eps, {ModelKind::kUNet, ModelKind::kMlp}},
          {"eps-that-rounds-to-zero", "norms", eps_that_rounds_to_zero}};
}

}  // namespace binade::faults
