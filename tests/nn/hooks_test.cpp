#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/recompute.h"
#include "binade/core/error.h"
#include "binade/nn/attention.h"
#include "binade/nn/layer_norm.h"
#include "binade/nn/linear.h"
#include "binade/nn/sequential.h"

namespace binade::nn {
namespace {

class Hooks : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(live_hooks(), 0) << "hooks end with their owners"; }
  Runtime runtime_{{.seed = 3}};
};

Variable input() { return Variable(Tensor::from(std::vector<float>{1, -2, 3, 0.5, 1, 2}, {2, 3}), true); }

std::vector<float> values(const Variable& x) { return x.value().to_vector<float>(); }

TEST_F(Hooks, ALeafsHookGetsTheGradientOfOneBackward) {
  Variable x = input();
  std::vector<std::vector<float>> seen;
  HookHandle handle = x.register_hook([&](const Variable& g) { seen.push_back(values(g)); });
  backward(sum(x * x) + sum(x));  // two uses, one gradient
  backward(sum(x));
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], (std::vector<float>{3, -3, 7, 2, 3, 5}));
  EXPECT_EQ(seen[1], std::vector<float>(6, 1.0f));
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{4, -2, 8, 3, 4, 6}));
  handle.remove();
  handle.remove();
  backward(sum(x));
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(Hooks, HooksReplaceAGradientInOrderOfRegistration) {
  Variable x = input();
  Variable h = x * 2.0;
  h.register_hook([](const Variable& g) { return g + 1.0; });
  h.register_hook([](const Variable& g) { return g * 10.0; });
  h.register_hook([](const Variable&) { return Tensor(); });
  backward(sum(h));
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(6, 40.0f));
  EXPECT_THROW(Variable(Tensor::zeros({2})).register_hook([](const Variable&) {}), AutogradError);
  Variable y = x * 2.0;
  y.register_hook([](const Variable&) { return Tensor::zeros({3}); });
  EXPECT_THROW(backward(sum(y)), AutogradError);
}

TEST_F(Hooks, TapeIndicesDoNotChange) {
  Variable x = input();
  const auto draw = [&](bool hooked) {
    step_context().next = {};
    Variable h = x * 2.0;
    if (hooked) h.register_hook([](const Variable& g) { return g * 3.0; });
    backward(sum(h));
    return step_context().next.tape_index;
  };
  EXPECT_EQ(draw(false), draw(true));
}

TEST_F(Hooks, AModulesHooksSeeInputOutputAndGradients) {
  Linear linear({.in = 3, .out = 2});
  std::string calls;
  linear.register_forward_pre_hook([&](Module& m, const Variable& x) {
    calls += "pre ";
    EXPECT_EQ(&m, &linear);
    return x * 2.0;
  });
  linear.register_forward_hook([&](Module&, const Variable& x, const Variable& y) {
    calls += "forward ";
    EXPECT_EQ(x.value().at(0), 2);
    EXPECT_EQ(y.dim(1), 2);
  });
  HookHandle backward_hook = linear.register_backward_hook([&](Module&, const Variable& gx, const Variable& gy) {
    calls += "backward";
    EXPECT_EQ(values(gy), std::vector<float>(4, 1.0f));
    return gx * 0.0;
  });
  Variable x = input();
  backward(sum(linear(x)));
  EXPECT_EQ(calls, "pre forward backward");
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(6, 0.0f));
  EXPECT_TRUE(linear.weight.grad().defined());
  backward_hook.remove();
  linear.register_forward_hook([](Module&, const Variable&, const Variable& y) { return y * 0.0; });
  EXPECT_EQ(values(linear(x)), std::vector<float>(4, 0.0f));
  Linear moved = std::move(linear);
  EXPECT_EQ(live_hooks(), 3);
}

TEST_F(Hooks, AFirstLayerHasNoInputGradient) {
  Linear linear({.in = 3, .out = 2});
  int calls = 0;
  HookHandle handle = linear.register_backward_hook([&](Module&, const Variable& gx, const Variable& gy) {
    ++calls;
    EXPECT_FALSE(gx.defined());
    EXPECT_TRUE(gy.defined());
  });
  const Variable x = input().detach();
  backward(sum(linear(x)));
  EXPECT_EQ(calls, 1);
  handle.remove();
  linear.register_backward_hook([](Module&, const Variable&, const Variable& gy) { return gy; });
  EXPECT_THROW(backward(sum(linear(x))), AutogradError);
}

TEST_F(Hooks, HooksThatOnlyObserveKeepTheBitsOfProductsAndNorms) {
  Linear first({.in = 3, .out = 4}), second({.in = 4, .out = 2});
  LayerNorm norm({.dim = 4});
  const auto gradients = [&] {
    const Variable x = input();
    backward(sum(square(second(norm(first(x))))));
    std::vector<float> all = x.grad().to_vector<float>();
    for (Variable* w : {static_cast<Variable*>(&first.weight), static_cast<Variable*>(&second.weight)}) {
      for (const float g : w->grad().to_vector<float>()) all.push_back(g);
      w->zero_grad();
    }
    return all;
  };
  const std::vector<float> expected = gradients();
  for (Module* m : {static_cast<Module*>(&first), static_cast<Module*>(&norm), static_cast<Module*>(&second)})
    m->register_backward_hook([](Module&, const Variable&, const Variable&) {});
  EXPECT_EQ(gradients(), expected);
}

TEST_F(Hooks, RunAgainInARecomputedSegment) {
  Linear linear({.in = 3, .out = 3});
  int forwards = 0, backwards = 0;
  linear.register_forward_hook([&](Module&, const Variable&, const Variable&) { ++forwards; });
  linear.register_backward_hook([&](Module&, const Variable&, const Variable&) { ++backwards; });
  backward(sum(recompute([&](const Variable& x) { return linear(x); }, input())));
  EXPECT_EQ(forwards, 2);
  EXPECT_EQ(backwards, 1);
}

TEST_F(Hooks, RunInTheProjectionsOfAttention) {
  MultiHeadAttention attention({.dim = 4, .heads = 2});
  const Variable x(Tensor::full({1, 3, 4}, 0.5));
  const std::vector<float> expected = values(attention(x));
  int calls = 0;
  attention.key.register_forward_hook([&](Module&, const Variable&, const Variable&) { ++calls; });
  EXPECT_EQ(values(attention(x)), expected);
  EXPECT_EQ(calls, 1);
}

struct TwoInputs : StatelessModule {
  std::string kind() const override { return "TwoInputs"; }
  Variable operator()(const Variable& a, const Variable& b) {
    const ModuleScope scope(*this);
    return a + b;
  }
};

TEST_F(Hooks, AModuleThatDoesNotCallHooksThrows) {
  TwoInputs sum;
  sum.register_forward_hook([](Module&, const Variable&, const Variable&) {});
  try {
    sum(input(), input());
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(),
                 "TwoInputs: this module has hooks, but its own operator() does not call them; register them with its "
                 "submodules, or with variables (Variable::register_hook)");
  }
}

}  // namespace
}  // namespace binade::nn
