#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/apply.h"
#include "binade/core/precision.h"
#include "tests/conformance/bound.h"
#include "tests/conformance/levels.h"
#include "tests/conformance/rare_reference.h"

// Compares every unary op for all 65,536 values of f16 and bf16 with a reference in long double, rounded once.
namespace binade::conformance {
namespace {

/// Rounds to nearest even in units of the last place, independently of core/float16.h.
double round_to(Real exact, DType dtype) {
  if (exact != exact || exact == 0) return static_cast<double>(exact);
  const DTypeRange range = range_of(dtype);
  if (std::abs(exact) >= static_cast<Real>(overflow_of(dtype))) return exact > 0 ? INFINITY : -INFINITY;
  int exponent = 0;
  std::frexp(std::max(std::abs(exact), static_cast<Real>(range.smallest_normal)), &exponent);
  const Real place = std::ldexp(Real{1}, exponent - 1 - range.mantissa_bits);
  return static_cast<double>(std::nearbyint(exact / place) * place);
}

Tensor every_value(DType dtype) {
  Tensor x = Tensor::empty(Shape{1 << 16}, dtype);
  for (int bits = 0; bits < 1 << 16; ++bits)
    static_cast<std::uint16_t*>(x.mutable_raw())[bits] = static_cast<std::uint16_t>(bits);
  return x;
}

template <class Op>
void check_every_value(const typename Op::Params& params, DType dtype) {
  const PolicyScope scope(PrecisionPolicy{}.with("*", dtype));
  const bool exactly = Op::info.numerics.ulp_half <= 0.5;
  const Tensor x = every_value(dtype);
  std::vector<Real> results;
  for (std::int64_t i = 0; i < x.numel(); ++i)
    results.push_back(Reference<Op>::value(params, static_cast<Real>(x.at(i))));
  at_every_level([&](std::string_view level) {
    const Tensor y = apply_one<Op>(params, {variable_of(x, false)}).value().to(Device::cpu());
    ASSERT_EQ(y.dtype(), dtype);
    std::int64_t numbers = 0, off = 0;
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const Real exact = results[static_cast<std::size_t>(i)];
      const double got = y.at(i), want = round_to(exact, dtype);
      const auto what = [&] {
        return fmt::format("{}({}) in {} at {}: got {}, exact {}", Op::info.name, x.at(i), name_of(dtype), level, got,
                           static_cast<double>(exact));
      };
      ASSERT_EQ(std::isnan(got), std::isnan(want)) << what();
      if (std::isnan(want)) continue;
      ++numbers;
      if (got == want) continue;
      ++off;
      ASSERT_FALSE(exactly) << what();
      ASSERT_LE(std::abs(static_cast<Real>(got) - exact), static_cast<Real>(ulp_of(want, dtype))) << what();
    }
    // At least 99.9 % are rounded correctly: the f32 result before rounding has an error of a few f32 ulps, and an f32
    // ulp is 2^-13 of an f16 ulp.
    EXPECT_LE(off * 1000, numbers) << Op::info.name << " in " << name_of(dtype) << " at " << level;
  });
}

template <class Op>
class EveryHalf : public testing::Test {};
TYPED_TEST_SUITE_P(EveryHalf);

TYPED_TEST_P(EveryHalf, F16IsRoundedOnce) {
  for (const auto& params : Sampling<TypeParam>::params()) check_every_value<TypeParam>(params, DType::f16);
}
TYPED_TEST_P(EveryHalf, BF16IsRoundedOnce) {
  for (const auto& params : Sampling<TypeParam>::params()) check_every_value<TypeParam>(params, DType::bf16);
}
REGISTER_TYPED_TEST_SUITE_P(EveryHalf, F16IsRoundedOnce, BF16IsRoundedOnce);

template <class List>
struct Types;
template <class... Ops>
struct Types<ops::OpList<Ops...>> {
  using type = testing::Types<Ops...>;
};
struct OpNames {
  template <class Op>
  static std::string GetName(int) {
    return Op::info.name;
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Unary, EveryHalf, Types<ops::UnaryOps>::type, OpNames);
INSTANTIATE_TYPED_TEST_SUITE_P(RareUnary, EveryHalf, Types<ops::RareUnaryOps>::type, OpNames);

}  // namespace
}  // namespace binade::conformance
