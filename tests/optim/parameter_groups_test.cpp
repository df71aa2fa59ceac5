#include <gtest/gtest.h>

#include <cmath>

#include "binade/core/error.h"
#include "binade/nn/linear.h"
#include "binade/nn/mlp.h"
#include "binade/optim/adam.h"
#include "binade/optim/device_updates.h"
#include "binade/optim/lion.h"
#include "binade/optim/sgd.h"
#include "tests/error_text.h"
#include "tests/optim/toy.h"

namespace binade::optim {
namespace {

using test::error_of;

class ParameterGroupsTest : public ::testing::Test {
 protected:
  /// Sets the gradients of step t and makes the step.
  void step(Optimizer& optimizer, int t, StepInput input) {
    for (std::size_t p = 0; p < parameters_.size(); ++p)
      toy::set_gradient(parameters_[p].variable,
                        toy::gradient(parameters_[p].variable.value().numel(), static_cast<std::uint32_t>(p), t));
    optimizer.step(input);
  }
  std::vector<float> weights(std::size_t p) const { return parameters_[p].variable.value().to_vector<float>(); }

  Runtime runtime_{{.seed = 3, .threads = 2}};
  std::vector<NamedParameter> parameters_ = toy::parameters();
};

/// The parameters of a group get the same bits as from an optimizer that has the group's settings for all parameters.
TEST_F(ParameterGroupsTest, AGroupUpdatesAsAnOptimizerWithItsSettings) {
  std::vector<NamedParameter> others = toy::parameters(), plain = toy::parameters();
  AdamW grouped(parameters_, {.lr = 1e-3,
                              .weight_decay = 0.1,
                              .groups = {{.match = "p1.*", .lr = 4e-3},
                                         {.match = {"p1.*", "p2.weight"}, .weight_decay = 0.3, .beta1 = 0.5},
                                         {.match = "p2*", .beta2 = 0.9, .eps = 1e-3}}});
  AdamW one(others, {.lr = 4e-3, .beta1 = 0.5, .weight_decay = 0.3});
  AdamW two(plain, {.lr = 1e-3, .beta1 = 0.5, .beta2 = 0.9, .eps = 1e-3, .weight_decay = 0.3});
  EXPECT_EQ(grouped.groups().classes(), 3u);
  for (int t = 1; t <= 5; ++t) {
    const double share = 1.0 / t;  // a schedule lowers the rate of all groups by the same factor
    step(grouped, t, {.lr = 1e-3 * share});
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      toy::set_gradient(others[p].variable, toy::gradient(others[p].variable.value().numel(), unsigned(p), t));
      toy::set_gradient(plain[p].variable, toy::gradient(others[p].variable.value().numel(), unsigned(p), t));
    }
    one.step({.lr = 1e-3 * share * (4e-3 / 1e-3)});
    two.step({.lr = 1e-3 * share});
  }
  EXPECT_EQ(weights(1), others[1].variable.value().to_vector<float>());
  EXPECT_EQ(weights(2), plain[2].variable.value().to_vector<float>());
  EXPECT_NE(weights(0), others[0].variable.value().to_vector<float>());
}

TEST_F(ParameterGroupsTest, AGroupWithoutMomentumIsPlainSgd) {
  Sgd sgd(parameters_, {.lr = 0.1, .dampening = 0.5, .groups = {{.match = "p1.*", .momentum = 0.9}}});
  std::vector<NamedParameter> copy = toy::parameters();
  Sgd plain(copy, {.lr = 0.1});
  for (int t = 1; t <= 3; ++t) {
    step(sgd, t, {.lr = 0.1});
    for (std::size_t p = 0; p < copy.size(); ++p)
      toy::set_gradient(copy[p].variable, toy::gradient(copy[p].variable.value().numel(), unsigned(p), t));
    plain.step({.lr = 0.1});
  }
  EXPECT_EQ(weights(2), copy[2].variable.value().to_vector<float>());
  EXPECT_NE(weights(1), copy[1].variable.value().to_vector<float>());
}

TEST_F(ParameterGroupsTest, AScheduleOfAGroupReplacesTheRateOfTheRun) {
  Lion lion(parameters_, {.lr = 1e-3, .groups = {{.match = "p0.*", .schedule = Schedule::linear(0.5, 4)}}});
  EXPECT_EQ(lion.lr_of(1, {.lr = 1e-3, .step = 2}), 1e-3);
  EXPECT_EQ(lion.lr_of(0, {.lr = 1e-3, .step = 2}), 0.25);
  EXPECT_EQ(lion.lr_of(0, {.lr = 1e-3, .step = 2, .lr_cut = 0.5}), 0.125);
  EXPECT_EQ(lion.lr_of(0, {.lr = 1e-3}), 0.375) << "without a number, the step is that of the next update";
  const std::vector<float> before = weights(0);
  step(lion, 1, {.lr = 1e-3});
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(std::abs(weights(0)[i] - before[i]), 0.375, 1e-6);
  EXPECT_EQ(lion.groups().highest_lr({.lr = 0, .step = 4}), 0);
  EXPECT_EQ(lion.groups().highest_lr({.lr = 0, .step = 1}), 0.375);
}

TEST_F(ParameterGroupsTest, BoundsUseTheRateOfTheGroup) {
  AdamW adam(parameters_, {.lr = 1e-3, .groups = {{.match = "p0.*", .lr_factor = 1e6}}});
  for (int t = 1; t <= 2; ++t) step(adam, t, {.lr = 1e-3});
  GradientScan scan = scan_gradients(adam.parameters());
  EXPECT_TRUE(adam.prove_finite({.lr = 1e-3}, scan).by_bound);
  const UpdateProof proof = adam.prove_finite({.lr = 1e33}, scan);
  EXPECT_FALSE(proof.finite);
  EXPECT_EQ(proof.parameter, "p0.weight");
  DeviceUpdates updates(adam);
  const DeviceUpdate safe = updates.next({.lr = 1e-3}), unsafe = updates.next({.lr = 1e33});
  EXPECT_GT(safe.gradient_limits[0], 0);
  EXPECT_LT(unsafe.gradient_limits[0], 0);
  EXPECT_GT(unsafe.gradient_limits[1], 0);
  EXPECT_EQ(safe.inputs[0].step, 3);
}

TEST_F(ParameterGroupsTest, WeightDecayObeysTheFilterOfTheGroup) {
  const auto adam = [&](ParameterGroup group) {
    return AdamW(toy::parameters(), {.groups = {std::move(group)}}).parameters().slices()[1].decays;
  };
  EXPECT_FALSE(adam({.match = "p*", .weight_decay = 0.1}));
  EXPECT_TRUE(adam({.match = "p1.*", .weight_decay = 0.1, .decays = decay_all}));
  EXPECT_EQ(error_of([&] { adam({.match = "p1.*", .weight_decay = 0.1}); }),
            "adamw: group 'p1.*' sets weight_decay 0.1, which applies to none of its 1 parameters; set the group's "
            "filter: .decays = optim::decay_all");
}

TEST_F(ParameterGroupsTest, ModulesAndFunctionsSelectParameters) {
  nn::Mlp model({.dim = 4, .hidden = 8});
  Sgd by_module(model, {.groups = {{.match = model.up, .lr = 0}}});
  EXPECT_EQ(by_module.groups().class_of(0), 1u);
  EXPECT_EQ(by_module.groups().class_of(2), 0u);
  const auto vectors = [](std::string_view, const Variable& p) { return p.shape().rank() < 2; };
  Sgd by_function(model, {.groups = {{.match = {vectors, "down.*"}, .lr = 0}}});
  EXPECT_EQ(by_function.groups().class_of(0), 0u);
  EXPECT_EQ(by_function.groups().class_of(1), 1u);
  EXPECT_EQ(by_function.groups().class_of(2), 1u);
}

TEST_F(ParameterGroupsTest, MistakesAreErrorsThatSayWhatToDo) {
  const auto with = [&](ParameterGroup group, double lr = 0.1) {
    return error_of([&] { Sgd(toy::parameters(), {.lr = lr, .groups = {group}}); });
  };
  EXPECT_EQ(with({.match = "q1.*", .lr = 1}), "sgd: group 'q1.*' selects no parameter; did you mean p1.*?");
  EXPECT_EQ(
      with({.match = "*.biases", .lr = 1}),
      "sgd: group '*.biases' selects no parameter; the parameters are p0.weight, p1.weight, p2.weight, p3.weight, "
      "p4.weight");
  EXPECT_EQ(with({.match = "p*", .beta1 = 0.5}), "sgd: group 'p*' sets beta1, which sgd does not have");
  EXPECT_EQ(with({.match = "p*", .lr = 1, .lr_factor = 2}),
            "sgd: group 'p*' sets two of lr, lr_factor and schedule; set one");
  EXPECT_EQ(with({.lr = 1}), "sgd: group 0 selects nothing; set its `match`");
  EXPECT_EQ(with({.match = "p*", .lr = 1}, 0),
            "sgd: group 'p*' sets lr 1, which scales the step's rate by lr / (lr of the options), and that is 0; give "
            "the options an lr, or the group a schedule");
  EXPECT_EQ(with({.match = "p*", .momentum = 2}), "sgd: wanted momentum in [0, 1), got 2");
  EXPECT_EQ(with({.match = "p*", .lr_factor = -1}), "sgd: group 'p*': wanted lr and lr_factor in [0, 1e6], got -1");
}

TEST_F(ParameterGroupsTest, AStateNamesTheGroupsAndRestoresTheirSchedules) {
  const ParameterGroup plateau{.match = "p0.*", .schedule = Schedule::plateau(0.5, 0.1, 0)};
  Sgd saved(toy::parameters(), {.groups = {plateau, {.match = "p1.*", .lr_factor = 2}}});
  saved.observe(1);
  saved.observe(1);
  EXPECT_DOUBLE_EQ(saved.lr_of(0, {.lr = 1}), 0.05);
  const StateDict state = saved.state();
  Sgd same(toy::parameters(), {.groups = {plateau, {.match = "p1.*", .lr_factor = 2}}});
  EXPECT_TRUE(same.changes_since(state).empty());
  same.load_state(state);
  EXPECT_DOUBLE_EQ(same.lr_of(0, {.lr = 1}), 0.05);
  Sgd other(toy::parameters(), {.groups = {plateau, {.match = "p1.*", .lr_factor = 3}}});
  EXPECT_EQ(other.changes_since(state),
            std::vector<std::string>{"parameter groups: group 'p1.*' (1 parameters): lr_factor 2 -> group 'p1.*' (1 "
                                     "parameters): lr_factor 3"});
  Sgd none(toy::parameters());
  EXPECT_EQ(none.changes_since(state).size(), 2u);
  EXPECT_EQ(other.changes_since(none.state()).back(),
            "parameter groups: none -> group 'p1.*' (1 parameters): lr_factor 3");
  none.load_state(state);
}

}  // namespace
}  // namespace binade::optim
