#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/gradcheck.h"
#include "binade/core/observation.h"
#include "binade/core/parallel.h"
#include "binade/core/precision.h"
#include "binade/core/runtime.h"
#include "binade/core/step_context.h"
#include "tests/conformance/bound.h"
#include "tests/conformance/case.h"
#include "tests/conformance/levels.h"

// Tests of every op x shape class x dtype, generated from the cases (case.h). No test names an op.
namespace binade::conformance {
namespace {

constexpr DType kTrained[] = {DType::f32, DType::f16, DType::bf16};

/// Continues an FNV-1a hash with the bytes of a tensor.
std::uint64_t hash_of(const Tensor& any, std::uint64_t hash) {
  const Tensor t = any.to(Device::cpu()).contiguous_copy();
  const unsigned char* bytes = static_cast<const unsigned char*>(t.raw());
  for (std::size_t i = 0; i < t.bytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3ull;
  return hash;
}

class Conformance : public testing::TestWithParam<const Case*> {
 protected:
  const Case& c() const { return *GetParam(); }

  /// Returns true for sizes that test the division into blocks; only a sample of their elements is checked.
  bool large() const {
    std::int64_t most = 0;
    for (const Tensor& x : c().inputs) most = std::max(most, x.numel());
    return most > 5000;
  }
  /// Returns the floating-point inputs in `dtype`; those that the op always reads in f32 (fp32 parameters) in f32.
  std::vector<Tensor> inputs_in(DType dtype) const {
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < c().inputs.size(); ++i) {
      const bool cast = c().is_read_in_halves(i) || c().info->policy_inputs == 0;
      inputs.push_back(in_dtype(c().inputs[i], cast || dtype == DType::f64 ? dtype : DType::f32));
    }
    return inputs;
  }
  Expected expected_of(const std::vector<Tensor>& inputs) const {
    std::vector<Array> arrays;
    for (const Tensor& x : inputs) arrays.push_back(array_of(x));
    return c().reference(arrays);
  }
  /// Runs the op under a policy that makes ops of every precision class read and store `dtype`.
  Variable run(const std::vector<Tensor>& inputs, DType dtype, bool with_gradient = false) const {
    std::vector<Variable> variables;
    for (const Tensor& x : inputs) variables.push_back(variable_of(x, with_gradient));
    return run(variables, dtype);
  }
  Variable run(const std::vector<Variable>& variables, DType dtype) const {
    const PolicyScope scope(is_half(dtype) ? PrecisionPolicy{}.with("*", dtype) : PrecisionPolicy{});
    step_context().next = OpNumbers::at(5);
    return c().run(variables);
  }
  void compare(const Tensor& got, const Expected& exact, const std::string& what) const {
    ASSERT_EQ(static_cast<std::size_t>(got.numel()), exact.values.size()) << what;
    const std::vector<double> values = got.to_vector<double>();
    ErrorSize largest(c().info->name, got.dtype());
    for (std::size_t k = 0; k < values.size(); ++k) {
      const double terms = exact.terms.empty() ? 0 : exact.terms[k],
                   magnitude = exact.magnitude.empty() ? 0 : exact.magnitude[k];
      const double halves = is_half(got.dtype()) && std::isfinite(magnitude)
                                ? c().half_roundings * std::ldexp(magnitude, -1 - range_of(got.dtype()).mantissa_bits)
                                : 0;
      const double bound = bound_of(c().info->numerics, got.dtype(), exact.values[k], terms, magnitude) + halves;
      if (!exact.open.empty() && exact.open[k] && std::isnan(values[k])) continue;
      largest.add(values[k], exact.values[k], bound);
      ASSERT_TRUE(agrees(values[k], exact.values[k], bound, got.dtype()))
          << what << ", element " << k << ": got " << values[k] << ", exact " << exact.values[k] << ", allowed "
          << bound;
    }
  }
};

TEST_P(Conformance, ForwardStaysWithinTheErrorBound) {
  for (const DType dtype : kTrained) {
    const std::vector<Tensor> inputs = inputs_in(dtype);
    const Expected exact = expected_of(inputs);
    at_every_level([&](std::string_view level) {
      compare(run(inputs, dtype).value(), exact, fmt::format("{} at {}", name_of(dtype), level));
    });
  }
}

/// The differentiable cases: no input is at a kink.
class ConformanceOfDerivatives : public Conformance {
 protected:
  /// Compares gradients in `dtype` with the gradients in f64 that `wide` holds.
  void follows(const std::vector<Variable>& wide, const Tensor& cotangent, DType dtype, std::string_view level) const {
    const double tolerance = dtype == DType::f32   ? 2e-5
                             : dtype == DType::f16 ? 8e-3
                             : dtype == DType::f64 ? std::ldexp(2e-5, -29)
                                                   : 6e-2;
    const double at_zero = dtype == DType::f64 ? std::ldexp(1e-6, -29) : 1e-6;
    std::vector<Variable> low;
    for (const Tensor& x : inputs_in(dtype)) low.push_back(variable_of(x, true));
    const Variable y = run(low, dtype);
    backward(y, cotangent.to(tested_device()));
    for (std::size_t k = 0; k < low.size(); ++k) {
      if (!low[k].requires_grad()) continue;
      const Tensor got = low[k].grad(), want = wide[k].grad();
      ASSERT_EQ(got.defined(), want.defined());
      if (!got.defined()) continue;
      const std::vector<double> values = got.to_vector<double>(), exact_values = want.to_vector<double>();
      double scale = 0;
      for (const double v : exact_values) scale = std::max(scale, std::abs(v));
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_LE(std::abs(values[i] - exact_values[i]), tolerance * scale + at_zero)
            << name_of(dtype) << " at " << level << ", input " << k << ", element " << i << ": got " << values[i]
            << ", double " << exact_values[i];
    }
  }
};

TEST_P(ConformanceOfDerivatives, BackwardIsTheDerivative) {
  const GradcheckResult result = gradcheck(c().run, c().inputs,
                                           {.max_elements = large() ? 4 : 24, .device = tested_device()});
  EXPECT_TRUE(result.passed) << result.message;
}

/// gradcheck tests gradients in f64; this test compares the gradients in f32 and 16 bits with them. Tolerances: in f32,
/// an error of 2^-24 per addition, and 16 times 2^-24 of the cotangent for gradients that cancel. In 16 bits, the
/// tensors that forward saved were rounded to 2^-11 or 2^-8. In f64, each kernel level is compared with the level that
/// gradcheck tested, with the tolerances of f32 at 2^-53.
TEST_P(ConformanceOfDerivatives, BackwardInLowPrecisionAgreesWithF64) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    std::vector<Variable> wide;
    for (const Tensor& x : inputs_in(dtype)) wide.push_back(variable_of(in_dtype(x, DType::f64), true));
    const Variable exact = run(wide, DType::f64);
    if (!exact.requires_grad()) return;
    const DType stored = run(inputs_in(dtype), dtype).dtype();  // may differ from `dtype`, for a cast
    const Tensor cotangent = random(exact.shape(), 77, 0.5, 1.5).to(stored);
    backward(exact, cotangent.to(DType::f64).to(tested_device()));
    at_every_level([&](std::string_view level) { follows(wide, cotangent, dtype, level); });
  }
}

/// y = x in new memory; backward passes the gradient on.
struct Copy {
  struct Params {};
  static constexpr OpInfo info{.name = "copy"};
  static Tensors forward(OpContext&, std::span<const Tensor> in, const Params&) { return {in[0].clone()}; }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params&) {
    if (gx.needs(0)) gx.set(0, gy[0]);
  }
};

class SeparatesGradients final : public TapeObserver {
  bool separates_gradients() const override { return true; }
};

/// Gradients have the same bits if an op adds to an existing gradient or writes over a saved tensor. Every input is
/// used twice: as a parameter, and as an activation to which no other reference exists.
TEST_P(ConformanceOfDerivatives, GradientsInPlaceHaveTheBitsOfTemporaries) {
  const auto gradients = [&](DType dtype, bool activations, bool apart) {
    std::vector<Variable> leaves;
    for (const Tensor& x : inputs_in(dtype)) leaves.push_back(variable_of(x, true));
    Variable y;
    {
      std::vector<Variable> used = leaves;
      for (Variable& x : used)
        if (activations && x.requires_grad()) x = apply_one<Copy>({}, {x});
      y = apply_one<Copy>({}, {run(used, dtype) + run(used, dtype)});
    }
    std::vector<Tensor> all;
    if (!y.requires_grad()) return all;
    const Tensor cotangent = random(y.shape(), 77, 0.5, 1.5).to(y.dtype()).to(tested_device());
    SeparatesGradients observer;
    std::optional<ObserverScope> scope;
    if (apart) scope.emplace(observer);
    backward(y, cotangent, {.retain_graph = apart});
    for (const Variable& x : leaves)
      if (x.requires_grad() && x.grad().defined()) all.push_back(x.grad().to(Device::cpu()).contiguous_copy());
    return all;
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (const bool activations : {false, true})
      at_every_level([&](std::string_view level) {
        const std::vector<Tensor> wanted = gradients(dtype, activations, true);
        const std::vector<Tensor> got = gradients(dtype, activations, false);
        ASSERT_EQ(got.size(), wanted.size());
        for (std::size_t k = 0; k < got.size(); ++k)
          EXPECT_TRUE(wanted[k].bytes() == 0 || std::memcmp(got[k].raw(), wanted[k].raw(), wanted[k].bytes()) == 0)
              << name_of(dtype) << " at " << level << (activations ? ", activation " : ", parameter ") << k;
      });
}

/// An op may overwrite the tensors that it saved only if no other backward follows.
TEST_P(ConformanceOfDerivatives, ASecondBackwardGivesTheSameBits) {
  std::vector<Variable> x;
  for (const Tensor& t : inputs_in(DType::f32)) x.push_back(variable_of(t, true));
  const Variable y = run(x, DType::f32);
  if (!y.requires_grad()) return;
  const Tensor cotangent = random(y.shape(), 77, 0.5, 1.5).to(y.dtype()).to(tested_device());
  std::uint64_t first = 0;
  for (const bool retain : {true, false}) {
    for (Variable& v : x) v.zero_grad();
    backward(y, cotangent, {.retain_graph = retain});
    std::uint64_t hash = 0xcbf29ce484222325ull;
    for (const Variable& v : x)
      if (v.requires_grad() && v.grad().defined()) hash = hash_of(v.grad(), hash);
    if (retain) first = hash;
    EXPECT_EQ(hash, first);
  }
}

/// The cases whose reference is right for NaN and infinities; other tests cover the other ops.
class ConformanceOfNonFinite : public Conformance {};

TEST_P(ConformanceOfNonFinite, InputsGiveTheResultsOfTheFormula) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : kTrained)
    for (const double value : {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity}) {
      if (large() && !std::isnan(value)) continue;  // large cases only test the last block, and one value is enough
      const std::vector<Tensor> clean = inputs_in(dtype);
      for (std::size_t k = 0; k < clean.size(); ++k) {
        if (!is_floating(clean[k].dtype()) || clean[k].numel() == 0) continue;
        const std::int64_t last = clean[k].numel() - 1;
        for (const std::int64_t at : large() ? std::vector{last} : std::vector{std::int64_t{0}, last / 2, last}) {
          std::vector<Tensor> inputs = inputs_in(dtype);
          Tensor bad = inputs[k].clone().to(DType::f64);
          bad.mutable_data<double>()[at] = value;
          inputs[k].copy_from(bad);
          const Expected exact = expected_of(inputs);
          const bool must_show = std::isnan(value) && c().nan_must_show && !exact.values.empty();
          at_every_level([&](std::string_view level) {
            const Tensor y = run(inputs, dtype).value();
            const std::string what = fmt::format("{} at {} with {} in input {} at {}", name_of(dtype), level, value, k,
                                                 at);
            compare(y, exact, what);
            if (!must_show) return;
            const std::vector<double> values = y.to_vector<double>();
            ASSERT_TRUE(std::ranges::any_of(values, [](double v) { return std::isnan(v); })) << what << ": swallowed";
          });
          if (HasFatalFailure()) return;
        }
      }
    }
}

/// Compares the observed maxima (core/observation.h) with the values that the kernels stored. Leaves out ops that only
/// move values, and results of one element, because for these apply() computes the maxima itself.
class ConformanceOfObservation : public Conformance {
 protected:
  /// Expects that `seen` is at least the largest stored value. It may be larger: it is taken before rounding, and
  /// may include tensors that the op saves for backward.
  void covers(const Observation& seen, const Tensor& stored, const std::string& what) const {
    if (stored.numel() < 2 || !is_floating(stored.dtype())) return;
    const std::uint32_t word = is_half(stored.dtype()) ? seen.low : seen.wide;
    const double noted = Tensor::scalar(std::bit_cast<float>(word)).to(stored.dtype()).item();
    double largest = 0;
    bool nan = false;
    for (const double v : stored.to_vector<double>()) {
      largest = std::max(largest, std::abs(v));
      nan = nan || std::isnan(v);
    }
    ASSERT_NE(word, 0u) << what << ": nothing was observed";
    if (nan)
      ASSERT_GT(word, 0x7f800000u) << what << ": a NaN passed unseen";
    else
      ASSERT_GE(noted, largest) << what;
  }
};

TEST_P(ConformanceOfObservation, KernelsObserveTheStoredValues) {
  for (const DType dtype : kTrained)
    for (const bool poisoned : {false, true}) {
      if (poisoned && !c().poison) continue;
      std::vector<Tensor> inputs = inputs_in(dtype);
      if (poisoned && (!is_floating(inputs[0].dtype()) || inputs[0].numel() == 0)) continue;
      if (poisoned) {
        Tensor bad = inputs[0].clone().to(DType::f64);
        bad.mutable_data<double>()[bad.numel() / 2] = std::numeric_limits<double>::quiet_NaN();
        inputs[0].copy_from(bad);
      }
      at_every_level([&](std::string_view level) {
        const std::string what = fmt::format("{} at {}{}", name_of(dtype), level, poisoned ? ", with a NaN" : "");
        std::vector<Variable> x;
        for (const Tensor& t : inputs) x.push_back(variable_of(t, c().differentiable));
        ObservationScope scope;
        const Variable y = run(x, dtype);
        const bool handed_on = y.value().raw() == x[0].value().raw();
        if (!handed_on) covers(scope.take().synchronized(), y.value(), what);
        if (!y.requires_grad() || HasFatalFailure()) return;
        const Tensor cotangent = random(y.shape(), 79).to(y.dtype());
        backward(y, cotangent.to(tested_device()));
        const Observation seen = scope.take().synchronized();
        // Gradients of weights are not observed, because the verdict reads them (optim/gradient_scan.h). An op may pass
        // its cotangent on unchanged.
        const Tensor gradient = x[0].requires_grad() ? x[0].grad() : Tensor();
        if (!gradient.defined() || poisoned) return;
        if (gradient.to_vector<double>() == cotangent.to_vector<double>()) return;
        covers(seen, gradient, what + ", backward");
      });
      if (HasFatalFailure()) return;
    }
}

/// Thread counts to compare. On a device the number of CPU threads has no effect, so the op runs twice with the same.
std::vector<int> thread_counts() {
  return tested_device() == Device::cpu() ? std::vector{1, 2, 3, 4, 8} : std::vector{1, 2};
}

TEST_P(Conformance, SameBitsAtEveryThreadCount) {
  const int before = num_threads();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::uint64_t first = 0;
    for (const int threads : thread_counts()) {
      set_num_threads(threads);
      std::vector<Variable> x;
      for (const Tensor& t : inputs_in(dtype)) x.push_back(variable_of(t, c().differentiable));
      const Variable y = run(x, dtype);
      std::uint64_t hash = hash_of(y.value(), 0xcbf29ce484222325ull);
      if (y.requires_grad()) {
        backward(y, random(y.shape(), 78).to(y.dtype()).to(tested_device()));
        for (const Variable& v : x)
          if (v.requires_grad() && v.grad().defined()) hash = hash_of(v.grad(), hash);
      }
      if (threads == 1) first = hash;
      EXPECT_EQ(hash, first) << name_of(dtype) << " at " << threads << " threads";
    }
  }
  set_num_threads(before);
}

std::vector<const Case*> cases_where(bool Case::*property) {
  std::vector<const Case*> some;
  for (const Case& c : all_cases())
    if (property == nullptr || c.*property) some.push_back(&c);
  return some;
}

std::string name_of_case(const testing::TestParamInfo<const Case*>& parameter) { return parameter.param->full_name(); }

INSTANTIATE_TEST_SUITE_P(Ops, Conformance, testing::ValuesIn(cases_where(nullptr)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Ops, ConformanceOfDerivatives, testing::ValuesIn(cases_where(&Case::differentiable)),
                         name_of_case);
std::vector<const Case*> observed_cases() {
  std::vector<const Case*> some;
  for (const Case& c : all_cases())
    if (c.info->observed == Observed::kByKernels) some.push_back(&c);
  return some;
}
INSTANTIATE_TEST_SUITE_P(Ops, ConformanceOfObservation, testing::ValuesIn(observed_cases()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Ops, ConformanceOfNonFinite, testing::ValuesIn(cases_where(&Case::poison)), name_of_case);

/// Creates the Runtime of all tests, with enough threads that the blocks are distributed differently.
class WithRuntime : public testing::Environment {
 public:
  void SetUp() override {
    runtime_ = std::make_unique<Runtime>(RuntimeOptions{.device = tested_device(), .seed = 1, .threads = 2});
  }
  void TearDown() override { runtime_.reset(); }

 private:
  std::unique_ptr<Runtime> runtime_;
};
[[maybe_unused]] const testing::Environment* const environment = testing::AddGlobalTestEnvironment(new WithRuntime);

}  // namespace
}  // namespace binade::conformance
