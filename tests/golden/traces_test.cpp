#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "binade/autograd/functions/losses.h"
#include "binade/core/runtime.h"
#include "binade/optim/adam.h"
#include "examples/transformer/gpt.h"
#include "examples/unet/unet.h"
#include "tests/golden/golden_file.h"
#include "tests/tested_device.h"

namespace binade::golden {
namespace {

// Relative. PyTorch in f32 differs from its run in double by 2e-7 over these twenty steps; Binade promises 1e-4.
constexpr double kLossTolerance = 1e-5;
constexpr int kSteps = 20;

Case trace(const std::string& name) {
  for (Case& c : read(folder() + "/traces.txt"))
    if (c.name == name) return c;
  throw std::runtime_error("no trace " + name);
}

/// Copies init.PATH of the case into the model; every parameter must be there.
void set_weights(nn::Module& model, const Case& c) {
  StateDict state;
  for (const auto& [role, array] : c.arrays)
    if (role.starts_with("init.")) state.put(role.substr(5), array.tensor(DType::f32));
  for (const auto& [name, buffer] : nn::named_buffers(model))
    if (name.ends_with("num_batches_tracked")) state.put(name, buffer->value().clone());
  nn::load_state_dict(model, state);
}

template <class Optimizer, class LossOf>
void follow(nn::Module& model, Optimizer& optimizer, const Case& c, const LossOf& loss_of) {
  const std::vector<double>& want = c.array("loss").values;
  ASSERT_EQ(want.size(), static_cast<std::size_t>(kSteps));
  for (int step = 1; step <= kSteps; ++step) {
    const std::string k = std::to_string(step);
    const Variable loss = loss_of(c.array("x." + k).tensor().to(tested_device()),
                                  c.array("target." + k).tensor().to(tested_device()));
    const double exact = want[static_cast<std::size_t>(step - 1)];
    EXPECT_NEAR(loss.item(), exact, kLossTolerance * std::abs(exact)) << "step " << step;
    backward(loss);
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const auto& [name, buffer] : nn::named_buffers(model)) {
    if (c.has("final." + name)) {
      EXPECT_EQ(difference(buffer->value().to(Device::cpu()), c.array("final." + name), {.rtol = 1e-4, .share = 1e-5}),
                "")
          << name;
    }
  }
}

TEST(GoldenTraces, UNetFollowsPyTorchForTwentySteps) {
  const Runtime runtime({.device = tested_device()});
  const Case c = trace("unet");
  examples::UNet model({.base = c.integer("base"), .depth = c.integer("depth")});
  set_weights(model, c);
  optim::Adam optimizer(
      model, {.lr = c.number("lr"), .beta1 = c.number("beta1"), .beta2 = c.number("beta2"), .eps = c.number("eps")});
  follow(model, optimizer, c, [&](const Tensor& x, const Tensor& target) { return bce_with_logits(model(x), target); });
}

TEST(GoldenTraces, TransformerFollowsPyTorchForTwentySteps) {
  const Runtime runtime({.device = tested_device()});
  const Case c = trace("transformer");
  for (const bool composed : {false, true}) {
    SCOPED_TRACE(composed ? "composed attention" : "fused attention");
    examples::Gpt model({.layers = c.integer("layers"),
                         .heads = c.integer("heads"),
                         .dim = c.integer("dim"),
                         .context = c.integer("context"),
                         .vocabulary = c.integer("vocabulary"),
                         .table = c.integer("vocabulary"),
                         .composed = composed});
    set_weights(model, c);
    optim::AdamW optimizer(model, {.lr = c.number("lr"),
                                   .beta1 = c.number("beta1"),
                                   .beta2 = c.number("beta2"),
                                   .eps = c.number("eps"),
                                   .weight_decay = c.number("weight_decay")});
    follow(model, optimizer, c,
           [&](const Tensor& tokens, const Tensor& target) { return cross_entropy(model(tokens), target); });
  }
}

}  // namespace
}  // namespace binade::golden
