#include "binade/nn/containers.h"

#include <gtest/gtest.h>

#include "binade/autograd/functions/reduce.h"
#include "binade/core/error.h"
#include "binade/core/runtime.h"
#include "binade/nn/activation.h"
#include "binade/nn/batch_norm.h"
#include "binade/nn/linear.h"
#include "binade/nn/sequential.h"
#include "binade/nn/shared.h"
#include "tests/core/op_check.h"
#include "tests/error_text.h"

namespace binade::nn {
namespace {

using test::error_of;
using Names = std::vector<std::string>;

class Containers : public ::testing::Test {
 protected:
  Runtime runtime_{{.seed = 5}};

  static Names names(Module& m) {
    Names found;
    for (const auto& [name, parameter] : named_parameters(m)) found.push_back(name);
    return found;
  }
};

struct Net : Module {
  ModuleList<Module> blocks;
  ModuleDict heads;
  ParameterList scales;
  ParameterDict extra;
  Net() {
    blocks.append(Linear({.in = 4, .out = 4, .bias = false}));
    blocks.append(Relu());
    heads.add("depth", Linear({.in = 4, .out = 1}));
    heads.add("class", Sequential(Linear({.in = 4, .out = 3, .bias = false}), Tanh()));
    scales.append(Tensor::full({4}, 2));
    extra.add("shift", Tensor::full({4}, 1));
  }
  void visit(Visitor& v) override {
    blocks.visit("blocks", v);
    v("heads", heads);
    v("scales", scales);
    v("extra", extra);
  }
  Variable forward(const Variable& x) override {
    return heads["class"](blocks[1](blocks[0](x)) * scales[0] + extra["shift"]);
  }
};

TEST_F(Containers, NameTheirMembers) {
  Net net;
  EXPECT_EQ(names(net), (Names{"blocks.0.weight", "heads.depth.weight", "heads.depth.bias", "heads.class.0.weight",
                               "scales.0", "extra.shift"}));
  EXPECT_EQ(net.heads.names(), (Names{"depth", "class"}));
  EXPECT_EQ(net.extra.size() + net.scales.size() + net.heads.size() + net.blocks.size(), 6u);
  Net other;
  const Tensor x = test::noise({2, 4}, 1, DType::f32);
  EXPECT_NE(other(x).value().to_vector<float>(), net(x).value().to_vector<float>());
  load_state_dict(other, state_dict(net));
  EXPECT_EQ(other(x).value().to_vector<float>(), net(x).value().to_vector<float>());
  net.eval();
  EXPECT_FALSE(net.heads["depth"].training());
}

TEST_F(Containers, RefuseNamesThatACheckpointCouldNotHold) {
  Net net;
  for (const char* name : {"", "a.b", "depth"}) EXPECT_THROW(net.heads.add(name, Relu()), ArgumentError) << name;
  EXPECT_THROW(net.extra.add("shift", Tensor::zeros({1})), ArgumentError);
  EXPECT_NE(error_of([&] { net.heads["width"]; }).find("depth, class"), std::string::npos);
  EXPECT_NE(error_of([&] { net.extra["width"]; }).find("shift"), std::string::npos);
  EXPECT_THROW(net.heads(Tensor::zeros({1, 4})), ArgumentError) << "it has no forward";
}

TEST_F(Containers, ASharedModuleIsListedOnceAndGetsTheGradientsOfAllItsUses) {
  Shared layer(Linear({.in = 3, .out = 3}));
  Sequential net(layer, Tanh(), layer);
  EXPECT_EQ(names(net), (Names{"0.weight", "0.bias"}));
  EXPECT_EQ(state_dict(net).values().size(), 2u);
  for (int i = 0; i < 3; ++i) assign_paths(net);
  EXPECT_EQ(layer->path(), "0") << "the first of its paths";

  Linear first({.in = 3, .out = 3}), second({.in = 3, .out = 3});
  for (Linear* copy : {&first, &second}) load_state_dict(*copy, state_dict(*layer));
  const Tensor x = test::noise({2, 3}, 1, DType::f32);
  const Variable y = net(x), wanted = second(tanh(first(x)));
  EXPECT_EQ(y.value().to_vector<float>(), wanted.value().to_vector<float>());
  backward(sum(y));
  backward(sum(wanted));
  for (std::int64_t i = 0; i < 9; ++i)
    EXPECT_NEAR(layer->weight.grad().at(i), first.weight.grad().at(i) + second.weight.grad().at(i), 1e-6);
  net.eval();
  EXPECT_FALSE(layer->training());
  net.requires_grad(false);
  EXPECT_FALSE(layer->weight.requires_grad());
}

/// A model that refers to a module of another model.
struct Borrower : Module {
  BatchNorm2d& norm;
  Linear head{{.in = 2, .out = 1}};
  explicit Borrower(BatchNorm2d& of_another) : norm(of_another) {}
  void visit(Visitor& v) override {
    v("norm", norm);
    v("again", norm);
    v("head", head);
  }
};

TEST_F(Containers, AModuleMayBeNamedByAReference) {
  BatchNorm2d norm({.channels = 2});
  Borrower borrower(norm);
  EXPECT_EQ(names(borrower), (Names{"norm.weight", "norm.bias", "head.weight", "head.bias"}));
  EXPECT_EQ(named_buffers(borrower).size(), 3u);
  EXPECT_EQ(named_modules(borrower).size(), 2u);
}

class Loading : public Containers {
 protected:
  static StateDict state_without(Module& m, const std::string& left_out, const std::string& added) {
    StateDict state;
    const StateDict all = state_dict(m);
    for (const auto& [name, value] : all.values())
      if (name != left_out) state.put(name, std::get<Tensor>(value).clone());
    if (!added.empty()) state.put(added, Tensor::zeros({1}));
    return state;
  }
};

TEST_F(Loading, NotStrictlyLoadsWhatFitsAndReturnsTheOtherNames) {
  Linear from({.in = 3, .out = 2}), to({.in = 3, .out = 2});
  const std::vector<float> bias = to.bias.value().to_vector<float>();
  const StateDict state = state_without(from, "bias", "head.weight");
  EXPECT_THROW(load_state_dict(to, state), CheckpointError);
  const LoadResult result = load_state_dict(to, state, {.strict = false});
  EXPECT_EQ(result.missing, Names{"bias"});
  EXPECT_EQ(result.unexpected, Names{"head.weight"});
  EXPECT_EQ(to.weight.value().to_vector<float>(), from.weight.value().to_vector<float>());
  EXPECT_EQ(to.bias.value().to_vector<float>(), bias);
  const LoadResult all = load_state_dict(to, state_dict(from));
  EXPECT_TRUE(all.missing.empty() && all.unexpected.empty());
}

TEST_F(Loading, NotStrictlyRefusesOtherShapes) {
  Linear from({.in = 3, .out = 2}), to({.in = 4, .out = 2});
  const std::vector<float> bias = to.bias.value().to_vector<float>();
  const std::string text = error_of([&] { load_state_dict(to, state_without(from, "", "more"), {.strict = false}); });
  EXPECT_NE(text.find("weight (wanted f32 (2, 4), got f32 (2, 3))"), std::string::npos) << text;
  EXPECT_EQ(text.find("more"), std::string::npos) << text;
  EXPECT_EQ(to.bias.value().to_vector<float>(), bias) << "nothing is changed";
}

}  // namespace
}  // namespace binade::nn
