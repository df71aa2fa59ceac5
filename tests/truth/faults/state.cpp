#include <cstring>
#include <limits>

#include "tests/truth/scenario.h"

/// State that is bad before a step begins: parameters (trained, frozen), buffers, averages, a teacher.
namespace binade::truth {

namespace {

const std::vector<std::string> kCorrupted{"corrupted-state"};

/// Writes one element of an f32 tensor in place.
void poison(Tensor tensor, Draw& draw) {
  const double value = draw.chance(0.5) ? std::numeric_limits<double>::quiet_NaN()
                                        : std::numeric_limits<double>::infinity();
  set_element(tensor, draw.below(tensor.numel()), value);
  tensor.bump_version();
}

Scenario parameter(const std::string& name, bool frozen) {
  Scenario s{.family = "state", .name = name};
  // The first half of the model is frozen.
  if (frozen)
    s.configure = [](SessionOptions& o, Draw&) {
      const Runtime runtime({.seed = o.seed, .threads = 1});
      TaskOptions task = o.task;
      const auto built = model_named(o.model).make(task);
      const auto all = nn::named_parameters(built->net());
      for (std::size_t i = 0; i < all.size() / 2; ++i) o.frozen.push_back(all[i].first);
    };
  s.strike = [](Session& session, Batch&, Draw& draw) {
    const auto all = nn::named_parameters(session.task().net());
    const auto& frozen_ones = session.options().frozen;
    const std::int64_t count = frozen_ones.empty() ? static_cast<std::int64_t>(all.size())
                                                   : static_cast<std::int64_t>(frozen_ones.size());
    const auto& [path, parameter] = all[static_cast<std::size_t>(draw.below(count))];
    poison(parameter->mutable_value(), draw);
    return Truth{.proof = Proof::kState, .state_path = path, .classes = kCorrupted, .must_fail = false};
  };
  return s;
}

}  // namespace

std::vector<Scenario> state_faults() {
  std::vector<Scenario> list{parameter("NaN in a trained parameter", false),
                             parameter("NaN in a frozen parameter", true)};

  Scenario buffer{.family = "state", .name = "NaN in a buffer"};
  buffer.fits = [](const ModelEntry& m) { return m.name == "mlp" || m.name == "resnet"; };
  buffer.strike = [](Session& session, Batch&, Draw& draw) {
    std::vector<std::pair<std::string, nn::Buffer*>> floating;
    for (const auto& one : nn::named_buffers(session.task().net()))
      if (one.second->committed().defined() && one.second->committed().dtype() == DType::f32) floating.push_back(one);
    const auto& [path, chosen] = draw.one_of(floating);
    poison(chosen->mutable_committed(), draw);
    return Truth{.proof = Proof::kState, .state_path = path, .classes = kCorrupted, .must_fail = false};
  };
  list.push_back(buffer);

  Scenario average{.family = "state", .name = "NaN in an averaged weight"};
  average.configure = [](SessionOptions& o, Draw&) { o.ema = true; };
  average.strike = [](Session& session, Batch&, Draw& draw) {
    const auto all = nn::named_parameters(session.task().net());
    const std::int64_t i = draw.below(static_cast<std::int64_t>(all.size()));
    poison(session.trainer().ema()->average(static_cast<std::size_t>(i)), draw);
    return Truth{.proof = Proof::kState,
                 .state_path = all[static_cast<std::size_t>(i)].first,
                 .classes = kCorrupted,
                 .must_fail = false};
  };
  list.push_back(average);

  // A module outside of the model is not in the checkpoints, so it cannot be recovered.
  Scenario teacher{.family = "state", .name = "NaN in a network outside of the model"};
  teacher.fits = [](const ModelEntry& m) { return m.name == "distill" || m.name == "dqn"; };
  teacher.strike = [](Session& session, Batch&, Draw& draw) {
    const auto all = nn::named_parameters(*session.task().outside());
    const auto& [path, parameter] = draw.one_of(all);
    set_element(parameter->mutable_value(), draw.below(parameter->value().numel()),
                std::numeric_limits<double>::quiet_NaN());
    parameter->mutable_value().bump_version();
    return Truth{.proof = Proof::kState, .state_path = path, .classes = kCorrupted, .recovers = false};
  };
  list.push_back(teacher);

  Scenario bitflip{.family = "state", .name = "top exponent bit of a weight flipped"};
  bitflip.strike = [](Session& session, Batch&, Draw& draw) {
    const auto all = nn::named_parameters(session.task().net());
    const auto& [path, parameter] = draw.one_of(all);
    Tensor& value = parameter->mutable_value();
    float& x = value.mutable_data<float>()[draw.below(value.numel())];
    std::uint32_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    bits |= 0x40000000u;
    std::memcpy(&x, &bits, sizeof bits);
    value.bump_version();
    return Truth{.proof = Proof::kState,
                 .state_path = path,
                 .classes = {"corrupted-state", "activation-overflow", "gradient-explosion", "attention-logit-overflow",
                             "normalisation-pole"}};
  };
  list.push_back(bitflip);
  return list;
}

}  // namespace binade::truth
