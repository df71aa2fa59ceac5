#include "binade/optim/lbfgs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/error.h"
#include "tests/error_text.h"
#include "tests/optim/toy.h"

namespace binade::optim {
namespace {

using test::error_of;

/// Rosenbrock's valley in two parameters, with its minimum at (1, 1).
struct Valley {
  Variable x{Tensor::from(std::vector<float>{-1.2f}, Shape{1}), true};
  Variable y{Tensor::from(std::vector<float>{1.0f}, Shape{1}), true};
  std::vector<NamedParameter> parameters() const { return {{"x", x}, {"y", y}}; }
  Variable loss() const {
    const Variable a = 1.0 - x, b = y - x * x;
    return sum(a * a + 100.0 * (b * b));
  }
};

TEST(LbfgsTest, FindsTheMinimumOfAValley) {
  const Runtime runtime;
  const Valley valley;
  Lbfgs optimizer(valley.parameters(), {.strong_wolfe = true});
  for (int k = 0; k < 5; ++k) optimizer.step([&] { return valley.loss(); });
  EXPECT_NEAR(valley.x.value().item(), 1, 1e-3);
  EXPECT_NEAR(valley.y.value().item(), 1, 2e-3);
  EXPECT_GT(optimizer.iterations(), 10);
  EXPECT_GT(optimizer.evaluations(), optimizer.iterations());
}

TEST(LbfgsTest, ResumesToTheSameBits) {
  const Runtime runtime;
  const LbfgsOptions options{.max_iter = 3, .history_size = 4, .strong_wolfe = true};
  const Valley whole, resumed;
  Lbfgs a(whole.parameters(), options);
  for (int k = 0; k < 4; ++k) a.step([&] { return whole.loss(); });
  Lbfgs b(resumed.parameters(), options);
  for (const auto& [to, from] : {std::pair(resumed.x, whole.x), {resumed.y, whole.y}})
    to.state()->value.copy_from(from.value());
  b.load_state(a.state());
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(a.step([&] { return whole.loss(); }), b.step([&] { return resumed.loss(); }));
    EXPECT_EQ(whole.x.value().item(), resumed.x.value().item());
    EXPECT_EQ(whole.y.value().item(), resumed.y.value().item());
  }
  Lbfgs other(toy::parameters(), options);
  EXPECT_THROW(other.load_state(a.state()), CheckpointError);
}

TEST(LbfgsTest, AStepThatFailsLeavesNoTrace) {
  const Runtime runtime;
  const Valley valley;
  Lbfgs optimizer(valley.parameters(), {.lr = 1e-3, .max_iter = 4});
  optimizer.step([&] { return valley.loss(); });
  const double x = valley.x.value().item(), y = valley.y.value().item();
  const std::int64_t iterations = optimizer.iterations();
  int calls = 0;
  const std::string text = error_of<NumericError>(
      [&] { optimizer.step([&] { return ++calls < 3 ? valley.loss() : valley.loss() * std::nan(""); }); });
  EXPECT_NE(text.find("not finite"), std::string::npos) << text;
  EXPECT_NE(text.find("strong_wolfe"), std::string::npos) << text;
  EXPECT_THROW(optimizer.step([&]() -> Variable {
    if (++calls > 5) throw DataError("no data");
    return valley.loss();
  }),
               DataError);
  EXPECT_EQ(valley.x.value().item(), x);
  EXPECT_EQ(valley.y.value().item(), y);
  EXPECT_EQ(optimizer.iterations(), iterations);
}

TEST(LbfgsTest, TheLineSearchShortensATrialThatIsNotFinite) {
  const Runtime runtime;
  const Variable x(Tensor::from(std::vector<float>{3.0f}, Shape{1}), true);
  Lbfgs optimizer(std::vector<NamedParameter>{{"x", x}}, {.lr = 50, .strong_wolfe = true});
  // log is NaN below 0, which the first trial reaches; the minimum is at 1.
  for (int k = 0; k < 5; ++k) optimizer.step([&] { return sum(x - log(x)); });
  EXPECT_NEAR(x.value().item(), 1, 1e-3);
}

TEST(LbfgsTest, NamesABadOption) {
  const Runtime runtime;
  EXPECT_EQ(error_of([] { Lbfgs(toy::parameters(), {.max_iter = 0}); }),
            "lbfgs: wanted max_iter >= 1, max_eval >= 0 and history_size >= 1, got 0, 0 and 100");
  Lbfgs optimizer(toy::parameters());
  EXPECT_EQ(error_of([&] { optimizer.step(nullptr); }), "lbfgs: step() wants a closure that returns the loss");
  EXPECT_EQ(error_of([&] { optimizer.step([] { return Variable(Tensor::zeros({2})); }); }),
            "lbfgs: wanted a loss of one element, got (2)");
}

}  // namespace
}  // namespace binade::optim
