#include <cmath>

#include "tests/truth/scenario.h"

/// Faults that no single sample causes: huge weights after a far too high learning rate, exploding recurrent products,
/// a fixed loss scale that is too high.
namespace binade::truth {

std::vector<Scenario> update_faults() {
  const std::vector<std::string> too_large{"activation-overflow", "gradient-explosion", "attention-logit-overflow",
                                           "reduction-overflow", "corrupted-state"};

  Scenario jump{.family = "update",
                .name = "weights after a step with a learning rate 10,000 times too high",
                .precisions = {"fp16"}};
  jump.strike = [too_large](Session& session, Batch&, Draw& draw) {
    // AdamW changes each weight by about the learning rate: here by +-30 to +-100.
    for (const auto& [name, parameter] : nn::named_parameters(session.task().net())) {
      Tensor& value = parameter->mutable_value();
      for (std::int64_t i = 0; i < value.numel(); ++i)
        value.mutable_data<float>()[i] += static_cast<float>((draw.chance(0.5) ? 1 : -1) * draw.between(3000, 10000));
      value.bump_version();
    }
    return Truth{.proof = Proof::kOverflow, .classes = too_large};
  };

  Scenario recurrent{.family = "update", .name = "recurrent product that explodes"};
  recurrent.fits = [](const ModelEntry& m) { return m.name == "rnn"; };
  recurrent.configure = [](SessionOptions& o, Draw&) { o.task.linear_recurrence = true; };
  recurrent.strike = [too_large](Session& session, Batch&, Draw& draw) {
    const double factor = session.options().precision == "fp16" ? draw.magnitude(20, 200) : draw.magnitude(3e5, 1e6);
    for (const auto& [name, parameter] : nn::named_parameters(session.task().net()))
      if (name == "cell.wh") {
        Tensor& value = parameter->mutable_value();
        for (std::int64_t i = 0; i < value.numel(); ++i) value.mutable_data<float>()[i] *= static_cast<float>(factor);
        value.bump_version();
      }
    return Truth{.proof = Proof::kOverflow, .classes = too_large};
  };

  Scenario scale{
      .family = "update", .name = "fixed loss scale that is too high", .precisions = {"fp16"}, .from_the_start = true};
  scale.configure = [](SessionOptions& o, Draw& draw) {
    o.loss_scale = amp::LossScaleOptions::fixed(std::exp2(static_cast<double>(28 + draw.below(10))));
  };
  scale.strike = [](Session&, Batch&, Draw&) {
    return Truth{.proof = Proof::kScale, .classes = {"loss-scale-overflow"}};
  };
  return {jump, recurrent, scale};
}

}  // namespace binade::truth
