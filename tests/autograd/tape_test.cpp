#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/shape.h"
#include "binade/autograd/recompute.h"
#include "binade/core/make.h"
#include "binade/core/runtime.h"
#include "binade/core/step_context.h"
#include "tests/autograd/test_ops.h"

namespace binade {
namespace {

using testing::leaf;
using testing::product;
using testing::scale;

std::vector<float> grad_of(const Variable& x) { return x.grad().to_vector<float>(); }
Tensor cotangent(std::vector<float> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return Tensor::from(values, Shape{n});
}

TEST(Tape, GradientsOfSharedInputsAdd) {
  const Variable x = leaf({2, -3});
  backward(product(x, x), cotangent({1, 10}));
  EXPECT_EQ(grad_of(x), (std::vector<float>{4, -60}));
}

TEST(Tape, DiamondReachesEachNodeOnceWithTheSummedGradient) {
  const Variable x = leaf({3});
  const Variable y = scale(x, 2);               // 6
  backward(product(scale(y, 5), scale(y, 7)));  // 35 y^2 = 140 x^2
  EXPECT_EQ(grad_of(x), (std::vector<float>{840}));
}

TEST(Tape, GradientsAccumulateOverPassesUntilZeroed) {
  Variable x = leaf({1});
  backward(scale(x, 2));
  backward(scale(x, 3));
  EXPECT_EQ(grad_of(x), (std::vector<float>{5}));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
  backward(scale(x, 7));
  EXPECT_EQ(grad_of(x), (std::vector<float>{7}));
}

TEST(Tape, GradientsKeepTheirAddressAcrossSteps) {
  Variable x = leaf({1, 2});
  backward(product(x, Variable(Tensor::full(Shape{2}, 1))), cotangent({1, 1}));
  const void* address = x.grad().raw();
  x.zero_grad();
  backward(product(x, Variable(Tensor::full(Shape{2}, 4))), cotangent({1, 1}));
  EXPECT_EQ(x.grad().raw(), address);
  EXPECT_EQ(grad_of(x), (std::vector<float>{4, 4}));
}

TEST(Tape, SecondBackwardIsRefusedUnlessTheGraphIsRetained) {
  const Variable x = leaf({1});
  const Variable y = scale(x, 2);
  backward(y, 1.0, {.retain_graph = true});
  backward(y);
  EXPECT_EQ(grad_of(x), (std::vector<float>{4}));
  EXPECT_THROW(backward(y), AutogradError);
}

TEST(Tape, AnInPlaceWriteToASavedTensorIsAnError) {
  Variable x = leaf({1, 2});
  const Variable y = product(x, leaf({3, 4}));
  x.state()->value.fill(9);
  try {
    backward(y, cotangent({1, 1}));
    FAIL() << "the write went unnoticed";
  } catch (const AutogradError& error) {
    EXPECT_NE(std::string(error.what()).find("product"), std::string::npos) << error.what();
  }
}

TEST(Tape, NothingIsRecordedUnderNoGrad) {
  const Variable x = leaf({1});
  const NoGradGuard guard;
  EXPECT_FALSE(scale(x, 2).requires_grad());
}

TEST(Tape, DetachCutsHistory) {
  const Variable x = leaf({2});
  backward(product(x, scale(x, 3).detach()));
  EXPECT_EQ(grad_of(x), (std::vector<float>{6}));
}

TEST(Tape, ALossOfSeveralElementsNeedsACotangent) { EXPECT_THROW(backward(scale(leaf({1, 2}), 1)), ShapeError); }

constexpr int kDeep = 200'000;  // recursion over so many nodes would overflow a stack of 8 MiB

TEST(DeepChain, BackwardDoesNotRecurse) {
  const Variable x = leaf({1});
  Variable y = x;
  for (int i = 0; i < kDeep; ++i) y = scale(y, i % 2 ? 2.0 : 0.5);
  backward(y);
  EXPECT_EQ(grad_of(x), (std::vector<float>{1}));
}

TEST(DeepChain, ReleaseDoesNotRecurse) {
  Variable y = leaf({1});
  for (int i = 0; i < kDeep; ++i) y = scale(y, 1);
  y = Variable();
}

TEST(Autocast, LowCopyOfAParameterGivesAnF32Gradient) {
  const Variable w = leaf({1.0f + 0x1p-12f, 3});
  const PolicyScope scope({.low = DType::f16, .overrides = {{"product", DType::f16}}});
  const Variable y = product(w, Variable(Tensor::full(Shape{2}, 2, DType::f16)));
  EXPECT_EQ(y.dtype(), DType::f16);
  EXPECT_EQ(y.value().at(0), 2.0);  // 1 + 2^-12 rounds to 1 in f16
  backward(y, Tensor::full(Shape{2}, 1, DType::f16));
  EXPECT_EQ(w.grad().dtype(), DType::f32);
  EXPECT_EQ(grad_of(w), (std::vector<float>{2, 2}));
}

TEST(Autocast, ACastOfAnActivationIsRecorded) {
  const Variable w = leaf({3});
  const Variable h = scale(w, 2);  // f32 activation
  const PolicyScope scope({.low = DType::bf16, .overrides = {{"product", DType::bf16}}});
  const Variable y = product(h, h);
  EXPECT_EQ(y.dtype(), DType::bf16);
  backward(y, Tensor::full(Shape{1}, 1, DType::bf16));
  EXPECT_EQ(grad_of(w), (std::vector<float>{24}));
}

TEST(Autocast, CastsOfAPolicyChangeNoRandomNumber) {
  // So a replay with another precision uses the same random numbers.
  const auto drawn = [](const PrecisionPolicy& policy) {
    const PolicyScope scope(policy);
    step_context().next = {};
    const Variable h = product(scale(leaf(std::vector<float>(64, 1)), 2), scale(leaf(std::vector<float>(64, 1)), 1));
    std::vector<float> numbers = (dropout(h, 0.5) * 0.5).value().to(DType::f32).to_vector<float>();
    const std::vector<float> noise = randn({64}).to_vector<float>();
    numbers.insert(numbers.end(), noise.begin(), noise.end());
    return numbers;
  };
  const PrecisionPolicy low{.low = DType::bf16, .overrides = {{"product", DType::bf16}}};
  EXPECT_EQ(drawn(low), drawn({}));
}

TEST(Recompute, HasTheSameBitsAndTapeIndicesAndSavesLess) {
  const auto segment = [](const Variable& x) { return product(scale(x, 3), product(x, x)); };
  const auto run = [&](bool on) {
    step_context().next = {};
    const Variable w = leaf({0.1f, -2.7f, 5.3f});
    const Variable x = scale(w, 1.1);
    const Variable y = on ? recompute(segment, x) : segment(x);
    const std::int64_t after = step_context().next.tape_index;
    backward(scale(y, 2), cotangent({1, -1, 0.3f}));
    EXPECT_EQ(step_context().next.tape_index, after + 1);
    return grad_of(w);
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Recompute, ParametersInASegmentGetTheirGradients) {
  const Variable w = leaf({2});
  const Variable y = recompute([&](const Variable& x) { return product(x, w); }, Variable(Tensor::full(Shape{1}, 5)));
  backward(y);
  EXPECT_EQ(grad_of(w), (std::vector<float>{5}));
}

TEST(Recompute, OfDataRequiresNoGradient) {
  const Variable w = leaf({2}), data(Tensor::full(Shape{1}, 5));
  const Variable doubled = recompute([&](const Variable& x) { return scale(x, 2); }, data);
  EXPECT_FALSE(doubled.requires_grad()) << "as without recompute";
  backward(product(doubled, w));
  EXPECT_EQ(grad_of(w), (std::vector<float>{10}));
  EXPECT_THROW(backward(doubled), AutogradError);
  const Variable beside = recompute([&](const Variable&) { return scale(data, 2); }, leaf({1}));  // its input is unused
  backward(product(beside, leaf({3})));
}

std::string text_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(Inputs, AreCheckedByNumberAndNameBeforeTheOpRuns) {
  const ModulePathScope scope("decoder.0.up");
  const Variable x = leaf({1, 2});
  EXPECT_EQ(text_of([&] { matmul(x, Variable()); }),
            "matmul [decoder.0.up]: wanted input 1, b, got an undefined variable; assign it first");
  EXPECT_EQ(text_of([&] { scale(Variable(), 2); }),
            "scale [decoder.0.up]: wanted input 0, got an undefined variable; assign it first");
  EXPECT_EQ(text_of([&] {
              apply<ops::Linear>({}, {x, x});
            }),
            "linear [decoder.0.up]: wanted the inputs (x, w, bias?), got 2 of them");
  EXPECT_EQ(text_of([&] { concat(std::vector<Variable>{}); }),
            "concat [decoder.0.up]: wanted at least one input, got 0");
  EXPECT_EQ(linear(Tensor::full({1, 2}, 1), Tensor::full({3, 2}, 1)).shape(), (Shape{1, 3}));  // the bias is optional
}

TEST(UserOp, BadAllocBecomesAnOutOfMemoryErrorWithTheOp) {
  const auto words = [](Direction direction) -> std::string {
    try {
      Variable y;
      {
        const ModulePathScope scope("decoder.0.up");
        y = apply_one<testing::Starved>({direction}, {leaf({1, 2})});
      }
      backward(y, Tensor::from(std::vector<float>{1, 1}, {2}));
    } catch (const OutOfMemoryError& error) {
      return error.what();
    }
    return "";
  };
  constexpr const char* kWanted =
      "starved [decoder.0.up]: no memory for what it works with; use a smaller batch, image or context";
  EXPECT_EQ(words(Direction::kForward), kWanted);
  EXPECT_EQ(words(Direction::kBackward), kWanted);
}

TEST(UserOp, ErrorsContainTheModulePath) {
  const ModulePathScope scope("decoder.0.up");
  EXPECT_EQ(where("scale").to_string(), "scale [decoder.0.up]");
}

}  // namespace
}  // namespace binade
