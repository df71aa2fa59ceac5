#include <cmath>
#include <numeric>
#include <span>
#include <string_view>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/core/ops/cast.h"
#include "binade/core/ops/dropout.h"
#include "binade/core/ops/truth.h"
#include "binade/core/ops/where.h"
#include "tests/conformance/rare_reference.h"
#include "tests/conformance/registry.h"

namespace binade::conformance {
namespace {

/// Returns the index in an operand of shape `from` of the element that NumPy's broadcasting combines with element i of
/// shape `to`; both indices are row-major.
std::int64_t source_index(const Shape& from, const Shape& to, std::int64_t i) {
  std::int64_t index = 0, stride = 1;
  for (int d = 1; d <= to.rank(); ++d) {
    const std::int64_t position = i % to.dim(-d);
    i /= to.dim(-d);
    if (d > from.rank()) continue;
    if (from.dim(-d) != 1) index += position * stride;
    stride *= from.dim(-d);
  }
  return index;
}

std::string numbered(const char* name, std::size_t set) {
  return set == 0 ? name : std::string(name) + "_options" + std::to_string(set);
}

template <class Op>
constexpr bool nan_must_show() {
  if constexpr (requires { Sampling<Op>::nan_must_show; }) return Sampling<Op>::nan_must_show;
  return true;
}
template <class Op>
constexpr bool poison() {
  if constexpr (requires { Sampling<Op>::poison; }) return Sampling<Op>::poison;
  return true;
}

template <class Op>
void add_unary(std::vector<Case>& cases) {
  const auto sets = Sampling<Op>::params();
  for (std::size_t s = 0; s < sets.size(); ++s)
    for (const ShapeClass& shape : shape_classes()) {
      const auto params = sets[s];
      cases.push_back({.info = &Op::info,
                       .name = numbered(shape.name, s),
                       .inputs = {random(shape, 1 + s, Sampling<Op>::low, Sampling<Op>::high)},
                       .run = [params](const std::vector<Variable>& x) { return apply_one<Op>(params, {x[0]}); },
                       .reference =
                           [params](const std::vector<Array>& in) {
                             Expected y;
                             for (const double x : in[0].values)
                               y.values.push_back(
                                   static_cast<double>(Reference<Op>::value(params, static_cast<Real>(x))));
                             return y;
                           },
                       .poison = poison<Op>(),
                       .nan_must_show = nan_must_show<Op>()});
    }
}

struct Pair {
  const char* name;
  ShapeClass a, b;
};
const std::vector<Pair>& pairs() {
  static const std::vector<Pair> all = [] {
    std::vector<Pair> list;
    for (const ShapeClass& c : shape_classes()) list.push_back({c.name, c, c});
    list.push_back({"row_and_column", {"", {3, 1}}, {"", {1, 5}}});
    list.push_back({"tensor_and_scalar", {"", {3, 5}}, {"", Shape{}}});
    list.push_back({"scalar_and_tensor", {"", Shape{}}, {"", {7, 3}}});
    list.push_back({"channels", {"", {2, 5, 7, 3}}, {"", {3}}});
    list.push_back({"channel_slice_and_vector", {"", {4, 3, 6}, true}, {"", {6}}});
    list.push_back({"size_1_inside", {"", {2, 1, 3}}, {"", {2, 4, 3}}});
    list.push_back({"size_1_last", {"", {33, 65}}, {"", {33, 1}}});
    list.push_back({"size_1_slice", {"", {6, 5}}, {"", {6, 1}, true}});
    list.push_back({"crossed", {"", {2, 1, 3, 1}}, {"", {4, 1, 5}}});
    list.push_back({"broadcast_empty", {"", {0, 3}}, {"", {1, 3}}});
    list.push_back({"large_rows", {"", {257, 131}}, {"", {131}}});
    return list;
  }();
  return all;
}

template <class Op>
void add_binary(std::vector<Case>& cases) {
  for (const Pair& pair : pairs())
    cases.push_back({.info = &Op::info,
                     .name = pair.name,
                     .inputs = {random(pair.a, 1, Sampling<Op>::low, Sampling<Op>::high),
                                random(pair.b, 2, Sampling<Op>::low, Sampling<Op>::high)},
                     .run =
                         [](const std::vector<Variable>& x) {
                           return apply_one<Op>({}, {x[0], x[1]});
                         },
                     .reference =
                         [](const std::vector<Array>& in) {
                           const Shape shape = broadcast(in[0].shape, in[1].shape, "reference");
                           Expected y;
                           for (std::int64_t i = 0; i < shape.numel(); ++i)
                             y.values.push_back(static_cast<double>(
                                 Reference<Op>::value({}, static_cast<Real>(in[0][source_index(in[0].shape, shape, i)]),
                                                      static_cast<Real>(in[1][source_index(in[1].shape, shape, i)]))));
                           return y;
                         },
                     .poison = poison<Op>(),
                     .nan_must_show = nan_must_show<Op>()});
}

/// Returns values from {-1, 0, 1}, so that many are equal or 0.
Tensor coarse(const ShapeClass& c, std::uint64_t tag) {
  Tensor x = random_labels(c.shape, tag, 3).to(DType::f64);
  for (double& value : std::span(x.mutable_data<double>(), static_cast<std::size_t>(x.numel()))) value -= 1;
  if (!c.slice) return x;
  Tensor slice = random(c, tag);
  slice.copy_from(x);
  return slice;
}

/// Adds cases for an op whose result is a bool or an integer. Ops of one input ignore b.
template <class Op>
void add_exact(std::vector<Case>& cases, double (*formula)(double, double), bool on_bits = false) {
  const auto input = [&](const ShapeClass& c, std::uint64_t tag) {
    return on_bits ? random_labels(c.shape, tag, 70) : coarse(c, tag);
  };
  const auto add = [&](const char* name, std::vector<Tensor> inputs) {
    cases.push_back({.info = &Op::info,
                     .name = name,
                     .inputs = std::move(inputs),
                     .run = [](const std::vector<Variable>& x) { return std::move(binade::apply<Op>({}, x).front()); },
                     .reference =
                         [formula](const std::vector<Array>& in) {
                           const Array &a = in.front(), &b = in.back();
                           const Shape shape = broadcast(a.shape, b.shape, "reference");
                           Expected y;
                           for (std::int64_t i = 0; i < shape.numel(); ++i)
                             y.values.push_back(
                                 formula(a[source_index(a.shape, shape, i)], b[source_index(b.shape, shape, i)]));
                           return y;
                         },
                     .differentiable = false,
                     .nan_must_show = false});
  };
  if (std::string_view(Op::info.inputs) == "x")
    for (const ShapeClass& c : shape_classes()) add(c.name, {input(c, 1)});
  else
    for (const Pair& pair : pairs()) add(pair.name, {input(pair.a, 1), input(pair.b, 2)});
}

using Whole = std::int64_t;
/// Turns a formula for integers into one that takes and returns doubles.
template <auto kFormula>
double of_whole(double a, double b) {
  return static_cast<double>(kFormula(static_cast<Whole>(a), static_cast<Whole>(b)));
}
Whole shifted_left(Whole a, Whole b) {
  for (; b > 0; --b) a = static_cast<Whole>(static_cast<std::uint64_t>(a) * 2);
  return a;
}
Whole shifted_right(Whole a, Whole b) {
  for (; b > 0; --b) a /= 2;  // a >= 0
  return a;
}

Tensor condition_for(const Shape& shape) {
  const Tensor labels = random_labels(shape, 9, 2);
  return labels.to(DType::u8);
}

}  // namespace

std::vector<Case> unary_cases() {
  std::vector<Case> cases;
  ops::for_each_op(ops::UnaryOps{}, [&]<class Op>(ops::OpTag<Op>) { add_unary<Op>(cases); });
  ops::for_each_op(ops::RareUnaryOps{}, [&]<class Op>(ops::OpTag<Op>) { add_unary<Op>(cases); });
  return cases;
}

std::vector<Case> binary_cases() {
  std::vector<Case> cases;
  ops::for_each_op(ops::BinaryOps{}, [&]<class Op>(ops::OpTag<Op>) { add_binary<Op>(cases); });
  ops::for_each_op(ops::RareBinaryOps{}, [&]<class Op>(ops::OpTag<Op>) { add_binary<Op>(cases); });
  return cases;
}

std::vector<Case> exact_cases() {
  std::vector<Case> cases;
  add_exact<ops::Equal>(cases, [](double a, double b) -> double { return a == b; });
  add_exact<ops::NotEqual>(cases, [](double a, double b) -> double { return a != b; });
  add_exact<ops::Less>(cases, [](double a, double b) -> double { return a < b; });
  add_exact<ops::LessEqual>(cases, [](double a, double b) -> double { return a <= b; });
  add_exact<ops::Greater>(cases, [](double a, double b) -> double { return a > b; });
  add_exact<ops::GreaterEqual>(cases, [](double a, double b) -> double { return a >= b; });
  add_exact<ops::LogicalAnd>(cases, [](double a, double b) -> double { return a != 0 && b != 0; });
  add_exact<ops::LogicalOr>(cases, [](double a, double b) -> double { return a != 0 || b != 0; });
  add_exact<ops::LogicalXor>(cases, [](double a, double b) -> double { return (a != 0) != (b != 0); });
  add_exact<ops::LogicalNot>(cases, [](double a, double) -> double { return a == 0; });
  add_exact<ops::IsNan>(cases, [](double a, double) -> double { return std::isnan(a); });
  add_exact<ops::IsInf>(cases, [](double a, double) -> double { return std::isinf(a); });
  add_exact<ops::IsFinite>(cases, [](double a, double) -> double { return std::isfinite(a); });
  add_exact<ops::BitwiseAnd>(cases, of_whole<[](Whole a, Whole b) { return a & b; }>, true);
  add_exact<ops::BitwiseOr>(cases, of_whole<[](Whole a, Whole b) { return a | b; }>, true);
  add_exact<ops::BitwiseXor>(cases, of_whole<[](Whole a, Whole b) { return a ^ b; }>, true);
  add_exact<ops::BitwiseNot>(cases, of_whole<[](Whole a, Whole) { return -a - 1; }>, true);
  add_exact<ops::LeftShift>(cases, of_whole<&shifted_left>, true);
  add_exact<ops::RightShift>(cases, of_whole<&shifted_right>, true);
  add_exact<ops::Gcd>(cases, of_whole<[](Whole a, Whole b) { return std::gcd(a, b); }>, true);
  add_exact<ops::Lcm>(cases, of_whole<[](Whole a, Whole b) { return std::lcm(a, b); }>, true);
  return cases;
}

std::vector<Case> where_cases() {
  std::vector<Case> cases;
  for (const Pair& pair : pairs()) {
    const Shape shape = broadcast(pair.a.shape, pair.b.shape, "where");
    for (const bool own_shape : {true, false}) {
      const Shape condition = own_shape || shape.rank() == 0 ? shape : shape.with_dim(-1, 1);
      cases.push_back({.info = &ops::Where::info,
                       .name = std::string(pair.name) + (own_shape ? "" : "_condition_repeats"),
                       .inputs = {condition_for(condition), random(pair.a, 1), random(pair.b, 2)},
                       .run = [](const std::vector<Variable>& x) { return where(x[0], x[1], x[2]); },
                       .reference =
                           [shape](const std::vector<Array>& in) {
                             Expected y;
                             for (std::int64_t i = 0; i < shape.numel(); ++i) {
                               const Array& taken = in[in[0][source_index(in[0].shape, shape, i)] != 0 ? 1 : 2];
                               y.values.push_back(taken[source_index(taken.shape, shape, i)]);
                             }
                             return y;
                           },
                       .nan_must_show = false});
    }
  }
  return cases;
}

std::vector<Case> cast_cases() {
  std::vector<Case> cases;
  for (const ShapeClass& shape : shape_classes())
    cases.push_back({.info = &ops::Cast::info,
                     .name = shape.name,
                     .inputs = {random(shape, 1)},
                     .run =
                         [](const std::vector<Variable>& x) {
                           return apply_one<ops::Cast>({x[0].dtype() == DType::f32 ? DType::bf16 : x[0].dtype()},
                                                       {x[0]});
                         },
                     .reference =
                         [](const std::vector<Array>& in) {
                           return Expected{in[0].values, {}, {}};
                         }});
  return cases;
}

std::vector<Case> dropout_cases() {
  std::vector<Case> cases;
  for (const ShapeClass& shape : shape_classes())
    for (const double p : {0.0, 0.25, 1.0}) {
      const auto keeps = [p](const RandomStream& stream, std::int64_t i) {
        return stream.word(static_cast<std::uint64_t>(i)) >> 8 >= static_cast<std::uint32_t>(p * 0x1p24);
      };
      cases.push_back({.info = &ops::Dropout::info,
                       .name = std::string(shape.name) + (p == 0   ? "_none"
                                                          : p == 1 ? "_all"
                                                                   : "_quarter"),
                       .inputs = {random(shape, 1)},
                       .run =
                           [p](const std::vector<Variable>& x) {
                             step_context().next = OpNumbers::at(5);
                             return dropout(x[0], p);
                           },
                       .reference =
                           [p, keeps](const std::vector<Array>& in) {
                             const RandomStream stream = random_stream(RngPurpose::kDropout, 5);
                             Expected y;
                             for (std::size_t i = 0; i < in[0].values.size(); ++i)
                               y.values.push_back(
                                   keeps(stream, static_cast<std::int64_t>(i)) ? in[0].values[i] / (1 - p) : 0);
                             return y;
                           },
                       .nan_must_show = false});
    }
  return cases;
}

}  // namespace binade::conformance
