#include "binade/amp/warnings/untrained_parameters.h"

#include <gtest/gtest.h>

#include <functional>

#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "tests/amp/toy.h"

/// Parameters without a gradient are reported once, with the reason, unless they pause as in healthy runs.
namespace binade::amp {
namespace {

/// Three layers. Only some of the losses call `spare`.
struct Net : nn::Module {
  nn::Linear first{{.in = 4, .out = 16}}, second{{.in = 16, .out = 2}}, spare{{.in = 4, .out = 2}};
  void visit(nn::Visitor& v) override {
    v("first", first);
    v("second", second);
    v("spare", spare);
  }
};

struct UserRun {
  using Loss = std::function<Variable(Net& net, const toy::Batch& b, std::int64_t step)>;
  Runtime runtime{{.seed = 1, .threads = 1}};
  Net net;
  optim::AdamW optimizer{net, {.lr = 1e-3}};
  Trainer trainer;
  Loss loss;
  std::vector<Warning> warnings;

  explicit UserRun(Loss f, const Policy& policy = Policy::fp32())
      : trainer(runtime, net, optimizer, {.precision = policy}), loss(std::move(f)) {}
  void to(std::int64_t step) {
    while (trainer.steps() < step) {
      const std::int64_t k = trainer.steps() + 1;
      const StepResult result = trainer.step(toy::batch(static_cast<std::uint32_t>(k)),
                                             [&](const toy::Batch& b) { return loss(net, b, k); });
      for (const Warning& w : result.warnings)
        if (w.kind == WarningKind::kUntrainedParameters) warnings.push_back(w);
    }
  }
};

/// All three layers learn, and the code between the first two is `between`.
UserRun::Loss with(const std::function<Variable(const Variable& h)>& between) {
  return [=](Net& net, const toy::Batch& b, std::int64_t) {
    return mse(net.second(between(net.first(b.x))) + net.spare(b.x), Variable(b.target));
  };
}

Variable all_layers(Net& net, const toy::Batch& b) {
  return mse(net.second(relu(net.first(b.x))) + net.spare(b.x), Variable(b.target));
}

TEST(UntrainedParameters, AreReportedOnceWithTheReason) {
  struct Case {
    const char* name;
    UserRun::Loss loss;
    std::string module, op, reason;
  };
  const UserRun::Loss unused = [](Net& net, const toy::Batch& b, std::int64_t) {
    return mse(net.second(relu(net.first(b.x))), Variable(b.target));
  };
  const std::vector<Case> cases{
      {"never called", unused, "spare", "", "spare is never called"},
      {"detached", with([](const Variable& h) { return relu(h).detach(); }), "first", "", "does not reach first"},
      {"dead", with([](const Variable& h) { return relu(h - 1e4); }), "first", "relu", "'relu'"},
      {"zeroed", with([](const Variable& h) { return tanh(relu(h) * 0.0 + 1.0); }), "first", "mul_scalar",
       "'mul_scalar'"},
      {"saturated", with([](const Variable& h) { return sigmoid(tanh(h) + 500.0); }), "first", "sigmoid", "'sigmoid'"},
  };
  for (const Case& c : cases)
    for (const Policy& policy : {Policy::fp32(), Policy::fp16()}) {
      UserRun run(c.loss, policy);
      run.to(160);
      const auto warning = std::ranges::find_if(run.warnings, [&](const Warning& w) {
        return w.what.find(c.module + ".weight") != std::string::npos;
      });
      ASSERT_NE(warning, run.warnings.end()) << c.name;
      EXPECT_EQ(warning->step, 100) << c.name;
      EXPECT_NE(warning->what.find(c.reason), std::string::npos) << c.name << ": " << warning->what;
      EXPECT_NE(warning->what.find(c.module + ".bias"), std::string::npos) << c.name << ": " << warning->what;
      for (const Warning& w : run.warnings)
        EXPECT_EQ(w.what.find("spare.bias") != std::string::npos, c.module == "spare");
    }
}

TEST(UntrainedParameters, ALayerWhoseInputIsAlwaysZeroIsNamedWithTheOpThatMakesIt) {
  UserRun run(with([](const Variable& h) { return relu(h - 1e4); }));
  run.to(100);
  ASSERT_EQ(run.warnings.size(), 2u) << "the layer before the ReLU, and the weight behind it";
  const Warning& second = run.warnings[1];
  EXPECT_NE(second.what.find("second.weight has"), std::string::npos) << second.what;
  EXPECT_NE(second.what.find("the input of second, the result of 'relu', is 0"), std::string::npos) << second.what;
}

TEST(UntrainedParameters, ALossThatDependsOnNoParameterIsReported) {
  UserRun run([](Net& net, const toy::Batch& b, std::int64_t) {
    return mse(all_layers(net, b) * 0.0, Variable(Tensor::full({}, 1)));
  });
  run.to(120);
  ASSERT_EQ(run.warnings.size(), 1u);
  EXPECT_NE(run.warnings[0].what.find("nor has any other"), std::string::npos) << run.warnings[0].what;
}

TEST(UntrainedParameters, HealthyPausesAreNotReported) {
  const std::vector<std::pair<const char*, UserRun::Loss>> healthy{
      {"all layers", [](Net& net, const toy::Batch& b, std::int64_t) { return all_layers(net, b); }},
      {"a loss of 0", [](Net& net, const toy::Batch& b, std::int64_t) { return all_layers(net, b) * 0.0; }},
      {"players that take turns of 40 steps",
       [](Net& net, const toy::Batch& b, std::int64_t k) {
         const Variable y = net.second(relu(net.first(b.x)));
         return mse(k / 40 % 2 == 0 ? y.detach() + net.spare(b.x) : y, Variable(b.target));
       }},
      {"a head that is used less and less often",
       [](Net& net, const toy::Batch& b, std::int64_t k) {
         const bool used = k == 30 || k == 100 || k == 300;
         return used ? all_layers(net, b) : mse(net.second(relu(net.first(b.x))), Variable(b.target));
       }},
      {"a bias that a difference cancels",
       [](Net& net, const toy::Batch& b, std::int64_t) {
         const Variable y = net.second(relu(net.first(b.x)));
         return mean(square(y - net.second(relu(net.first(b.x * -1.0))))) + mse(net.spare(b.x), Variable(b.target));
       }},
  };
  for (const auto& [name, loss] : healthy) {
    UserRun run(loss);
    run.to(450);
    EXPECT_TRUE(run.warnings.empty()) << name << ": " << (run.warnings.empty() ? "" : run.warnings[0].what);
  }
}

TEST(UntrainedParameters, AResumedRunReportsTheSame) {
  StateDict state;
  const auto warnings = [&](std::int64_t to) {
    UserRun run(with([](const Variable& h) { return h.detach(); }));
    if (!state.empty()) run.trainer.load_state(state);
    run.to(to);
    state = run.trainer.state();
    return run.warnings;
  };
  EXPECT_TRUE(warnings(70).empty());
  const std::vector<Warning> resumed = warnings(120);
  ASSERT_EQ(resumed.size(), 1u);
  EXPECT_EQ(resumed[0].step, 100);
  EXPECT_TRUE(warnings(200).empty()) << "it was reported before";
}

TEST(UntrainedParameters, AnImplausibleStateIsRefused) {
  StateDict bad;
  bad.put("steps", StateDict::Integers{1});
  bad.put("longest", StateDict::Integers{1, 2});
  bad.put("reported", StateDict::Integers{0});
  EXPECT_THROW(UntrainedParameters().load_state(bad), CheckpointError);
}

}  // namespace
}  // namespace binade::amp
