// Arithmetic at its singularities, in user code between two layers. Only the marked sample gives non-finite values.
#include "tests/faults/plan.h"
#include "tests/faults/user_ops.h"

namespace binade::faults {
namespace {

using enum CauseClass;

/// The site adds a small multiple of `term` to x.
template <class F>
Plan pole(Card card, F&& term) {
  return {.card = std::move(card), .site = [term = std::forward<F>(term)](const Variable& x, const Now& now) {
            return x + 0.05 * term(x, now);
          }};
}

Plan log_of_zero(const Spot& s) {
  return pole(at_site(s, "log", "forward", {"-inf"}, {kArithmeticSingularity}),
              [](const Variable& x, const Now& now) { return log(positive_but(now, x, 0)); });
}

Plan log_of_negative(const Spot& s) {
  return pole(at_site(s, "log", "forward", {"nan"}, {kArithmeticSingularity}),
              [](const Variable& x, const Now& now) { return log(positive_but(now, x, -1)); });
}

Plan division_by_an_empty_count(const Spot& s) {
  return pole(at_site(s, "div", "forward", {"inf"}, {kArithmeticSingularity}),
              [](const Variable& x, const Now& now) { return (square(x) + 1.0) / marks(now, x, 0, 3); });
}

Plan zero_over_zero(const Spot& s) {
  return pole(at_site(s, "div", "forward", {"nan"}, {kArithmeticSingularity}), [](const Variable& x, const Now& now) {
    const Variable v = positive_but(now, x, 0);
    return v / sum(v, {-1}, true);
  });
}

Plan reciprocal_of_zero(const Spot& s) {
  return pole(at_site(s, "scalar_div", "forward", {"inf"}, {kArithmeticSingularity}),
              [](const Variable& x, const Now& now) { return 1.0 / positive_but(now, x, 0); });
}

Plan sqrt_of_negative(const Spot& s) {
  return pole(at_site(s, "sqrt", "forward", {"nan"}, {kArithmeticSingularity}),
              [](const Variable& x, const Now& now) { return sqrt(positive_but(now, x, 0) - 0.5); });
}

Plan gradient_of_sqrt_at_zero(const Spot& s) {
  return pole(at_site(s, "sqrt", "backward", {"inf", "-inf", "nan"}, {kArithmeticSingularity}),
              [](const Variable& x, const Now& now) { return sqrt(positive_but(now, x, 0)); });
}

Plan gradient_of_a_norm_at_zero(const Spot& s) {
  return pole(at_site(s, "sqrt", "backward", {"inf", "-inf", "nan"}, {kArithmeticSingularity}),
              [](const Variable& x, const Now& now) {
                return x * sqrt(sum(square(positive_but(now, x, 0)), {-1}, true));
              });
}

Plan negative_power_of_zero(const Spot& s) {
  return pole(at_site(s, "pow", "forward", {"inf"}, {kArithmeticSingularity}),
              [](const Variable& x, const Now& now) { return pow(positive_but(now, x, 0), -1.5); });
}

Plan gradient_of_a_root_at_zero(const Spot& s) {
  return pole(at_site(s, "pow", "backward", {"inf", "-inf", "nan"}, {kArithmeticSingularity}),
              [](const Variable& x, const Now& now) { return pow(positive_but(now, x, 0), 1.0 / 3); });
}

/// where() hides the bad value, but its gradient is 0 * inf.
Plan where_hides_the_value_only(const Spot& s) {
  return pole(at_site(s, "sqrt", "backward", {"nan"}, {kArithmeticSingularity}), [](const Variable& x, const Now& now) {
    const Variable v = positive_but(now, x, 0);
    const Tensor safe = marks(now, x, 0, 1).value().to(DType::u8);
    return where(Variable(safe), sqrt(v), v);
  });
}

Plan standardizing_a_constant(const Spot& s) {
  return pole(at_site(s, "div", "forward", {"nan"}, {kArithmeticSingularity, kNormalizationSingularity}),
              [](const Variable& x, const Now& now) {
                const Variable v = positive_but(now, x, 0) * x;
                const Variable centered = v - mean(v, {-1}, true);
                return centered / (mean(abs(centered), {-1}, true) + marks(now, x, 0, 1e-3));
              });
}

Plan min_max_scaling_of_a_constant(const Spot& s) {
  return pole(at_site(s, "div", "forward", {"nan"}, {kArithmeticSingularity, kNormalizationSingularity}),
              [](const Variable& x, const Now& now) {
                const Variable v = positive_but(now, x, 0);
                const Variable low = -1.0 * max(-v, {-1}, true), high = max(v, {-1}, true);
                return (v - low) / (high - low + marks(now, x, 0, 1e-3));
              });
}

/// The softmax underflows to 0, and its log is -inf.
Plan log_of_softmax(const Spot& s) {
  return pole(at_site(s, "log", "forward", {"-inf"}, {kArithmeticSingularity}), [](const Variable& x, const Now& now) {
    std::vector<float> ramp(static_cast<std::size_t>(x.shape().cols()));
    for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<float>(i);
    const Variable steep = marks(now, x, 400, 0) * Tensor::from(ramp, {x.shape().cols()});
    return 0.1 * log(softmax(x + steep));
  });
}

Plan variance_of_one_value(const Spot& s) {
  return of_whole_batch(
      pole(at_site(s, "div_scalar", "forward", {"nan"}, {kArithmeticSingularity, kNormalizationSingularity}),
           [](const Variable& x, const Now&) {
             const Variable one = narrow(x, -1, 0, 1);
             const auto n = static_cast<double>(one.dim(-1));
             return sum(square(one - mean(one, {-1}, true)), {-1}, true) / (n - 1);
           }));
}

Plan temperature_of_zero(const Spot& s) {
  return of_whole_batch(pole(at_site(s, "div_scalar", "forward", {}, {kArithmeticSingularity}),
                             [](const Variable& x, const Now&) { return softmax(x / 0.0); }));
}

Plan pole_of_a_users_op(const Spot& s) {
  return pole(at_site(s, "acos", "backward", {"inf", "-inf", "nan"}, {kArithmeticSingularity}),
              [](const Variable& x, const Now& now) {
                return apply_one<Acos>({}, {tanh(x) * marks(now, x, 0, 0.5) + marks(now, x, 1, 0)});
              });
}

/// The variance as E[x^2] - E[x]^2, which cancels to 0 for a mean far from 0.
Plan one_pass_variance(const Spot& s) {
  return pole(at_site(s, "pow", "forward", {"inf"}, {kNormalizationSingularity, kArithmeticSingularity}),
              [](const Variable& x, const Now& now) {
                const Variable v = positive_but(now, x, 0) + marks(now, x, 4096, 0);
                const Variable spread = mean(square(v), {-1}, true) - square(mean(v, {-1}, true));
                return (v - mean(v, {-1}, true)) * pow(spread + marks(now, x, 0, 1e-2), -0.5);
              });
}

}  // namespace

std::vector<Family> poles() {
  return {{"log-of-zero", "poles", log_of_zero},
          {"log-of-negative", "poles", log_of_negative},
          {"division-by-an-empty-count", "poles", division_by_an_empty_count},
          {"zero-over-zero", "poles", zero_over_zero},
          {"reciprocal-of-zero", "poles", reciprocal_of_zero},
          {"sqrt-of-negative", "poles", sqrt_of_negative},
          {"gradient-of-sqrt-at-zero", "poles", gradient_of_sqrt_at_zero},
          {"gradient-of-a-norm-at-zero", "poles", gradient_of_a_norm_at_zero},
          {"negative-power-of-zero", "poles", negative_power_of_zero},
          {"gradient-of-a-root-at-zero", "poles", gradient_of_a_root_at_zero},
          {"where-hides-the-value-only", "poles", where_hides_the_value_only},
          {"standardizing-a-constant", "poles", standardizing_a_constant},
          {"min-max-scaling-of-a-constant", "poles", min_max_scaling_of_a_constant},
          {"log-of-softmax", "poles", log_of_softmax},
          {"variance-of-one-value", "poles", variance_of_one_value},
          {"temperature-of-zero", "poles", temperature_of_zero},
          {"pole-of-a-users-op", "poles", pole_of_a_users_op},
          {"one-pass-variance", "poles", one_pass_variance}};
}

}  // namespace binade::faults
