#include <gtest/gtest.h>

#include <memory>

#include "binade/core/runtime.h"
#include "binade/nn/recurrent.h"
#include "tests/golden/op_case.h"

/// nn::Rnn, Lstm and Gru compared with PyTorch's. They load PyTorch's parameters by name.
namespace binade::golden {
namespace {

std::unique_ptr<nn::RecurrentLayers> layers_of(const Case& golden) {
  const std::int64_t in = golden.array("in.x").dims[2], hidden = golden.integer("hidden"),
                     layers = golden.integer("layers");
  const bool bias = golden.flag("bias"), both = golden.flag("bidirectional");
  const nn::RecurrentOptions options{.in = in, .hidden = hidden, .layers = layers, .bias = bias, .bidirectional = both};
  if (golden.op == "LSTM") return std::make_unique<nn::Lstm>(options);
  if (golden.op == "GRU") return std::make_unique<nn::Gru>(options);
  return std::make_unique<nn::Rnn>(nn::RnnOptions{
      .in = in, .hidden = hidden, .layers = layers, .relu = golden.flag("relu"), .bias = bias, .bidirectional = both});
}

/// Compares results and gradients in f32. The sums have at most a few hundred terms.
void check_case(const Case& golden) {
  SCOPED_TRACE(golden.name);
  const Tolerance tolerance{.rtol = 1e-5, .share = 2e-6, .absolute = 0x1p-20};
  const auto layers = layers_of(golden);
  StateDict weights;
  for (const auto& [name, parameter] : nn::named_parameters(*layers))
    weights.put(name, golden.array("in." + name).tensor());
  nn::load_state_dict(*layers, weights);
  const Inputs in(golden, DType::f32);
  const RecurrentResult result = (*layers)(in["x"], {in["h0"], in["c0"]}, in["lengths"]);

  const std::map<std::string, Variable> outputs{{"y", result.y}, {"h", result.state.h}, {"c", result.state.c}};
  for (const auto& [name, y] : outputs) {
    ASSERT_EQ(y.defined(), golden.has("out." + name)) << name;
    if (!y.defined()) continue;
    EXPECT_EQ(difference(y.value(), golden.array("out." + name), tolerance), "") << name;
    backward(y, golden.array("gout." + name).tensor(DType::f32), {.retain_graph = true});
  }
  for (const auto& [role, want] : golden.arrays) {
    if (!role.starts_with("gin.")) continue;
    Variable leaf = in[role.substr(4)];
    for (const auto& [name, parameter] : nn::named_parameters(*layers))
      if (name == role.substr(4)) leaf = *parameter;
    ASSERT_TRUE(leaf.defined() && leaf.grad().defined()) << role;
    EXPECT_EQ(difference(leaf.grad(), want, tolerance), "") << role;
  }
}

TEST(GoldenOps, RecurrentLayersMatchPyTorch) {
  const Runtime runtime;
  const std::vector<Case> cases = read(folder() + "/ops.recurrent.txt");
  EXPECT_EQ(cases.size(), 12u);
  for (const Case& golden : cases) check_case(golden);
}

}  // namespace
}  // namespace binade::golden
