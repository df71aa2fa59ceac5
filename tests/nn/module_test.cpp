#include "binade/nn/module.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/node.h"
#include "binade/autograd/recompute.h"
#include "binade/core/error.h"
#include "binade/core/precision.h"
#include "binade/core/runtime.h"
#include "binade/core/step_context.h"
#include "binade/nn/batch_norm.h"
#include "binade/nn/embedding.h"
#include "binade/nn/layer_norm.h"
#include "binade/nn/linear.h"

namespace binade::nn {
namespace {

/// x (…, 4) -> (…, 4)
struct Block : Module {
  Linear up{{.in = 4, .out = 8}}, down{{.in = 8, .out = 4, .bias = false}};
  LayerNorm norm{{.dim = 4}};
  void visit(Visitor& v) override {
    v("up", up);
    v("down", down);
    v("norm", norm);
  }
  Variable forward(const Variable& x) override { return norm(down(up(x))); }
};

struct Net : Module {
  Embedding tokens{{.count = 5, .dim = 4}};
  ModuleList<Block> blocks;
  Linear head{{.in = 4, .out = 5, .bias = false}};
  Net() {
    blocks.emplace_back();
    blocks.emplace_back();
    head.weight = tokens.weight;
  }
  void visit(Visitor& v) override {
    v("tokens", tokens);
    blocks.visit("blocks", v);
    v("head", head);
  }
  Variable forward(const Variable& x) override {
    Variable y = tokens(x);
    for (Block& block : blocks) y = block(y);
    return head(y);
  }
};

class Modules : public ::testing::Test {
 protected:
  Runtime runtime_{{.seed = 5}};
  Tensor tokens_ = Tensor::from(std::vector<std::int64_t>{1, 3, 4}, {1, 3});

  static std::vector<std::string> names(Module& m) {
    std::vector<std::string> found;
    for (const auto& [name, parameter] : named_parameters(m)) found.push_back(name);
    return found;
  }
};

TEST_F(Modules, PartsHaveDottedPathsAndTiedParametersAppearOnce) {
  Net net;
  EXPECT_EQ(names(net), (std::vector<std::string>{"tokens.weight", "blocks.0.up.weight", "blocks.0.up.bias",
                                                  "blocks.0.down.weight", "blocks.0.norm.weight", "blocks.0.norm.bias",
                                                  "blocks.1.up.weight", "blocks.1.up.bias", "blocks.1.down.weight",
                                                  "blocks.1.norm.weight", "blocks.1.norm.bias"}));
  EXPECT_EQ(count_parameters(net), 20 + 2 * (32 + 8 + 32 + 4 + 4));
}

TEST_F(Modules, OpsHaveThePathOfTheModuleTheyRanIn) {
  Net net;
  const Variable y = net(tokens_);
  EXPECT_EQ(y.state()->node->module_path(), "head");
  const Node* norm = y.state()->node->edges()[0].node.get();
  EXPECT_EQ(norm->module_path(), "blocks.1.norm");
  EXPECT_EQ(norm->edges()[0].node->module_path(), "blocks.1.down");
  EXPECT_EQ(net.head.weight.name(), "tokens.weight");
  EXPECT_EQ(step_context().module_path, "");
}

TEST_F(Modules, APartThatRanAloneGetsItsPathFromTheModel) {
  Net net;
  net.blocks[1](Tensor::zeros({1, 4}));
  EXPECT_EQ(net.blocks[1].path(), "");
  net(tokens_);
  EXPECT_EQ(net.blocks[1].path(), "blocks.1");
  const Variable y = net.blocks[1](Tensor::zeros({1, 4}));
  EXPECT_EQ(y.state()->node->module_path(), "blocks.1.norm") << "a named part keeps its name when it runs alone";
}

TEST_F(Modules, TrainAndEvalReachEveryPart) {
  Net net;
  net.eval();
  for (const auto& [name, module] : named_modules(net)) EXPECT_FALSE(module->training()) << name;
  net.train();
  for (const auto& [name, module] : named_modules(net)) EXPECT_TRUE(module->training()) << name;
}

TEST_F(Modules, StateDictRoundTripGivesTheSameOutputs) {
  Net first, second;
  const std::vector<float> wanted = first(tokens_).value().to_vector<float>();
  EXPECT_NE(second(tokens_).value().to_vector<float>(), wanted);
  load_state_dict(second, state_dict(first));
  EXPECT_EQ(second(tokens_).value().to_vector<float>(), wanted);
}

TEST_F(Modules, LoadingADifferentStateListsEveryDifferenceAndChangesNothing) {
  Block block;
  const std::vector<float> before = block.up.weight.value().to_vector<float>();
  StateDict state;
  state.put("up.weight", Tensor::zeros({8, 4}));
  state.put("up.bias", Tensor::zeros({7}));
  state.put("norm.weight", Tensor::zeros({4}, DType::f16));
  state.put("extra", Tensor::zeros({1}));
  try {
    load_state_dict(block, state);
    FAIL() << "a state that differs was loaded";
  } catch (const CheckpointError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("missing: down.weight, norm.bias"), std::string::npos) << text;
    EXPECT_NE(text.find("unexpected: extra"), std::string::npos) << text;
    EXPECT_NE(text.find("up.bias (wanted f32 (8), got f32 (7))"), std::string::npos) << text;
    EXPECT_NE(text.find("norm.weight (wanted f32 (4), got f16 (4))"), std::string::npos) << text;
  }
  EXPECT_EQ(block.up.weight.value().to_vector<float>(), before);
}

TEST_F(Modules, CallingAModuleWithoutForwardThrows) {
  struct Odd : Module {
    void visit(Visitor&) override {}
    std::string kind() const override { return "Odd"; }
  } odd;
  EXPECT_THROW(odd(Tensor::zeros({1})), ArgumentError);
}

class Statistics : public Modules {
 protected:
  static Tensor batch(double offset) {
    std::vector<float> values;
    for (int i = 0; i < 24; ++i) values.push_back(static_cast<float>(std::sin(i) + offset));
    return Tensor::from(values, {2, 2, 3, 2});
  }
  static std::vector<double> state(BatchNorm2d& norm) {
    std::vector<double> all;
    for (const auto& [name, buffer] : named_buffers(norm))
      for (const double v : buffer->committed().to_vector<double>()) all.push_back(v);
    return all;
  }
};

TEST_F(Statistics, RunningStatisticsFollowTheFormulaOfPyTorch) {
  BatchNorm2d norm({.channels = 2});
  const Tensor x = batch(1);
  norm(x);
  for (std::int64_t c = 0; c < 2; ++c) {
    double mean = 0, var = 0;
    for (std::int64_t i = c; i < 24; i += 2) mean += x.at(i) / 12;
    for (std::int64_t i = c; i < 24; i += 2) var += std::pow(x.at(i) - mean, 2) / 11;  // unbiased
    EXPECT_NEAR(norm.running_mean.value().at(c), 0.1 * mean, 1e-6);
    EXPECT_NEAR(norm.running_var.value().at(c), 0.9 + 0.1 * var, 1e-6);
  }
  EXPECT_EQ(norm.num_batches_tracked.value().item(), 1);
}

TEST_F(Statistics, EvaluationUsesTheRunningStatisticsAndDoesNotChangeThem) {
  BatchNorm2d norm({.channels = 2, .eps = 0});
  norm.running_mean.mutable_committed().fill(3);
  norm.running_var.mutable_committed().fill(4);
  norm.eval();
  const std::vector<double> before = state(norm);
  const Tensor x = batch(1);
  const Variable y = norm(x);
  for (std::int64_t i = 0; i < 24; ++i) EXPECT_NEAR(y.value().at(i), (x.at(i) - 3) / 2, 1e-6);
  EXPECT_EQ(state(norm), before);
}

TEST_F(Statistics, ARolledBackStepHasNoEffectAndACommittedOneEqualsNoTransaction) {
  BatchNorm2d norm({.channels = 2}), plain({.channels = 2});
  const std::vector<double> before = state(norm);
  {
    const TransactionScope transaction;
    norm(Tensor::full({2, 2, 3, 2}, std::numeric_limits<double>::infinity()));
    EXPECT_TRUE(norm.running_mean.pending());
    EXPECT_EQ(state(norm), before);
  }
  for (const auto& [name, buffer] : named_buffers(norm)) buffer->rollback();
  EXPECT_EQ(state(norm), before);
  {
    const TransactionScope transaction;  // the second micro-batch updates the pending values of the first
    norm(batch(1));
    norm(batch(2));
    EXPECT_EQ(state(norm), before);
    for (const auto& [name, buffer] : named_buffers(norm)) buffer->commit();
  }
  plain(batch(1));
  plain(batch(2));
  EXPECT_EQ(state(norm), state(plain));
}

TEST_F(Statistics, ShadowsThatNobodyCommitsAreDroppedTogether) {
  BatchNorm2d norm({.channels = 2}), kept({.channels = 2});
  const std::vector<double> before = state(norm);
  Shadows shadows;
  {
    const TransactionScope transaction(shadows);
    norm(batch(1));
    kept(batch(1));
  }
  for (const auto& [name, buffer] : named_buffers(kept)) buffer->commit();
  EXPECT_TRUE(norm.running_mean.pending());
  shadows.drop();
  EXPECT_FALSE(norm.running_mean.pending());
  EXPECT_EQ(norm.running_mean.value().to_vector<double>(), std::vector<double>(2, 0));
  EXPECT_EQ(state(norm), before);
  EXPECT_NE(state(kept), before);
  {
    const Shadows others;
    const TransactionScope transaction(others);
    norm(batch(1));
    EXPECT_TRUE(norm.running_mean.pending());
  }
  EXPECT_FALSE(norm.running_mean.pending()) << "they do not outlive their Shadows";
}

TEST_F(Statistics, RecomputationUpdatesThemOnce) {
  BatchNorm2d norm({.channels = 2}), plain({.channels = 2});
  const Variable x(batch(1), true);
  const Variable y = recompute([&](const Variable& in) { return norm(in); }, x);
  backward(y, Tensor::full({2, 2, 3, 2}, 1));
  plain(batch(1));
  EXPECT_EQ(state(norm), state(plain));
}

/// A cast that is recorded would shift the random numbers of later ops. Frozen arguments are cast without a record, in
/// forward and in the recomputation.
TEST_F(Statistics, RecomputationOfAFrozenParameterDrawsTheSameMasks) {
  Parameter frozen(Tensor::full({4, 8}, 0.5));
  frozen.requires_grad(false);
  Parameter weight(Tensor::full({6, 8}, 0.25));
  const PolicyScope policy({.name = "bf16", .low = DType::bf16});
  const auto segment = [&](const Variable& x) { return dropout(linear(x, weight), 0.5); };
  const auto gradient = [&](bool again) {
    step_context().next = {};
    weight.zero_grad();
    backward(again ? recompute(segment, frozen) : segment(frozen), Tensor::full({4, 6}, 1));
    return weight.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

}  // namespace
}  // namespace binade::nn
