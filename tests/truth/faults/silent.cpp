#include "tests/truth/scenario.h"

/// Defects that make no result of the step non-finite: an inf that a later op turns into a finite number, and layers
/// that learn nothing.
namespace binade::truth {

namespace {

using Code = Tap::Code;

SilentScenario coded(const std::string& name, Silence silence, Code code, std::vector<std::string> precisions) {
  SilentScenario s{.family = "silent", .name = name, .precisions = std::move(precisions), .silence = silence};
  s.prepare = [code](Session& session, Draw&) { session.task().inner.code = code; };
  return s;
}

}  // namespace

std::vector<SilentScenario> silent_scenarios() {
  const std::vector<std::string> all{"fp32", "bf16", "fp16"};
  std::vector<SilentScenario> list{
      coded("an infinity that tanh swallows", Silence::kSwallowed,
            [](const Variable& h, const Variable&) { return h + tanh((h + 1.0) * 60000.0 * 10.0); }, {"fp16"}),
      coded("an infinity that sigmoid swallows", Silence::kSwallowed,
            [](const Variable& h, const Variable&) { return h * sigmoid((abs(h) + 1.0) * 3e5); }, {"fp16"}),
      coded("an infinity that clamp swallows", Silence::kSwallowed,
            [](const Variable& h, const Variable&) { return h + clamp((h + 1.0) * 5e5, -1, 1) * 0.1; }, {"fp16"}),
      coded("an infinite denominator", Silence::kSwallowed,
            [](const Variable& h, const Variable&) { return h + 1.0 / ((abs(h) + 1.0) * 1e5); }, {"fp16"}),
      coded(
          "a detached activation", Silence::kNoGradient, [](const Variable& h, const Variable&) { return h.detach(); },
          all),
      coded(
          "a layer of dead ReLUs", Silence::kNoGradient,
          [](const Variable& h, const Variable&) { return relu(h - 1e4); }, all),
      coded(
          "an activation times 0", Silence::kNoGradient, [](const Variable& h, const Variable&) { return h * 0.0; },
          all),
      coded(
          "a saturated gate", Silence::kNoGradient,
          [](const Variable& h, const Variable&) { return sigmoid(tanh(h) * 10.0 + 500.0); }, all),
  };

  SilentScenario spare{.family = "silent", .name = "a layer that forward never calls", .silence = Silence::kNoGradient};
  spare.fits = [](const ModelEntry& m) { return m.name == "mlp" || m.name == "lenet"; };
  spare.configure = [](SessionOptions& o, Draw&) { o.task.spare_layer = true; };
  list.push_back(spare);

  SilentScenario still{.family = "silent", .name = "a learning rate of 0"};
  still.configure = [](SessionOptions& o, Draw&) { o.schedule = optim::Schedule::constant(0); };
  list.push_back(still);

  SilentScenario tiny{
      .family = "silent", .name = "updates below the last bit of the weights", .precisions = {"fp32", "bf16"}};
  tiny.configure = [](SessionOptions& o, Draw&) { o.schedule = optim::Schedule::constant(1e-11); };
  list.push_back(tiny);

  SilentScenario diverging{.family = "silent", .name = "a loss that grows without overflow", .precisions = {"fp32"}};
  diverging.fits = [](const ModelEntry& m) {
    return m.name == "mlp" || m.name == "rnn" || m.name == "denoiser" || m.name == "experts";
  };
  diverging.configure = [](SessionOptions& o, Draw& draw) {
    o.schedule = optim::Schedule::constant(draw.magnitude(2, 6));
  };
  list.push_back(diverging);
  return list;
}

}  // namespace binade::truth
