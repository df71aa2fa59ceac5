#include "binade/amp/preflight/preflight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "binade/autograd/recompute.h"
#include "binade/core/error.h"
#include "tests/amp/preflight_cases.h"
#include "tests/amp/toy.h"

// Findings of the pre-flight for models with a fault, and for similar models without one.
namespace binade::amp {
namespace {

using preflight_cases::Case;

std::string findings_text(const PreflightReport& report) {
  std::ostringstream text;
  for (const PreflightFinding& f : report.findings) text << f << '\n';
  return text.str();
}

TEST(Preflight, FindsPlantedFaultsAndNothingElse) {
  int found = 0, right = 0, all = 0;
  const std::vector<Case> planted = preflight_cases::planted(), sound = preflight_cases::look_alikes();
  for (const Case& c : planted) {
    const PreflightReport report = preflight_cases::preflight(c);
    const auto hits = std::ranges::count_if(report.findings, [&](const PreflightFinding& f) {
      return f.rule == c.rule && f.op == c.op;
    });
    EXPECT_EQ(hits, 1) << c.name << "\n" << findings_text(report);
    EXPECT_EQ(report.findings.size(), 1u) << c.name << "\n" << findings_text(report);
    found += hits > 0 ? 1 : 0;
    right += static_cast<int>(hits);
    all += static_cast<int>(report.findings.size());
  }
  for (const Case& c : sound) {
    const PreflightReport report = preflight_cases::preflight(c);
    EXPECT_TRUE(report.findings.empty()) << c.name << "\n" << findings_text(report);
    all += static_cast<int>(report.findings.size());
  }
  const double recall = found / static_cast<double>(planted.size()),
               precision = right / static_cast<double>(std::max(all, 1));
  std::printf("%zu planted, %zu look-alikes: recall %.3f, precision %.3f\n", planted.size(), sound.size(), recall,
              precision);
  EXPECT_GE(recall, 0.9);
  EXPECT_GE(precision, 0.8);
}

/// A run whose state has every kind of member: statistics, averages, random numbers (dropout), a loss scale.
struct Whole {
  toy::Net net;
  optim::AdamW optimizer{net, {.lr = 0.01}};
  Trainer trainer;

  Whole(Runtime& runtime, const Policy& policy)
      : trainer(runtime, net, optimizer,
                {.precision = policy, .clip_norm = 1, .ema = optim::EmaOptions{}, .state_hash = true}) {}
  Variable loss(const toy::Batch& b) {
    return apply_one<toy::SquaredError>({}, {dropout(net(b.x), 0.3), Variable(b.target)});
  }
  StepResult step(std::uint32_t k) {
    return trainer.step(toy::batch(k), [&](const toy::Batch& b) { return loss(b); });
  }
};

TEST(Preflight, DoesNotChangeTheRun) {
  Runtime runtime({.seed = 4, .threads = 2});
  for (const Policy& policy : {Policy::fp32(), Policy::fp16(), Policy::pure_bf16()}) {
    Whole with(runtime, policy), without(runtime, policy);
    for (std::uint32_t k = 1; k <= 6; ++k) {
      const std::string before = with.trainer.state_hash();
      with.trainer.preflight(toy::batch(99), [&](const toy::Batch& b) { return with.loss(b); });
      EXPECT_EQ(with.trainer.state_hash(), before);
      const StepResult a = with.step(k), b = without.step(k);
      EXPECT_EQ(a.loss, b.loss) << policy.name << " step " << k;
      EXPECT_EQ(a.grad_norm, b.grad_norm);
      EXPECT_EQ(a.state_hash_after, b.state_hash_after);
    }
    EXPECT_EQ(with.trainer.steps(), 6);
    EXPECT_EQ(with.trainer.skipped(), 0);
    EXPECT_EQ(with.trainer.finished().size(), 6u);
  }
}

TEST(Preflight, AnExceptionOfTheStepIsAFindingAndLeavesNoTrace) {
  Runtime runtime({.seed = 4, .threads = 1});
  Whole run(runtime, Policy::fp16());
  run.step(1);
  const std::string before = run.trainer.state_hash();
  const PreflightReport report = run.trainer.preflight(toy::batch(2), [&](const toy::Batch& b) -> Variable {
    (void)run.net(b.x);
    throw DataError("sample 7 is torn");
  });
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].rule, "refused");
  EXPECT_EQ(report.findings[0].what, "sample 7 is torn");
  EXPECT_EQ(run.trainer.state_hash(), before);
  EXPECT_EQ(step_context().next.tape_index, 0);
  for (const auto& [name, buffer] : nn::named_buffers(run.net)) EXPECT_FALSE(buffer->pending()) << name;
}

TEST(Preflight, MergesFindingsInNumberedModules) {
  Runtime runtime({.threads = 1});
  struct Blocks : nn::Module {
    nn::ModuleList<nn::Linear> blocks;
    Blocks() {
      for (int i = 0; i < 12; ++i) blocks.emplace_back(nn::LinearOptions{.in = 4, .out = 4});
    }
    void visit(nn::Visitor& v) override { blocks.visit("blocks", v); }
    Variable forward(const Variable& input) override {
      Variable x = input;
      for (nn::Linear& block : blocks) {
        const ModulePathScope path(block.path());
        x = log(relu(block(x)));
      }
      return x;
    }
  } model;
  optim::AdamW optimizer(model, {.lr = 1e-3});
  Trainer trainer(runtime, model, optimizer);
  const PreflightReport report = trainer.preflight(toy::random({3, 4}, 1, 0.1f),
                                                   [&](const Tensor& x) { return mean(model(x)); });
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings[0].rule, "log-pole");
  EXPECT_EQ(report.findings[0].module, "blocks.0");
  EXPECT_EQ(report.findings[0].also.size(), 11u);
}

TEST(Preflight, AnalyzesRecomputedSegments) {
  Runtime runtime({.threads = 1});
  preflight_cases::Features model;
  optim::AdamW optimizer(model, {.lr = 1e-3});
  Trainer trainer(runtime, model, optimizer);
  const auto rules_of = [&](double eps) {
    std::vector<std::string> rules;
    const PreflightReport report = trainer.preflight(toy::random({8, 6}, 7), [&](const Tensor& x) {
      return mean(recompute([eps](const Variable& h) { return log(relu(h) + eps); }, model(x)));
    });
    for (const PreflightFinding& f : report.findings) rules.push_back(f.rule);
    return rules;
  };
  EXPECT_EQ(rules_of(0), std::vector<std::string>{"log-pole"});
  EXPECT_EQ(rules_of(1e-3), std::vector<std::string>{});
}

TEST(Preflight, WorksWithoutATrainer) {
  const Runtime runtime({.threads = 1});
  preflight_cases::Features model;
  optim::Adam optimizer(model, {.lr = 1e-3, .eps = 0});
  const PreflightReport report = preflight({.model = model, .optimizer = optimizer, .lr = 1e-3}, [&] {
    return mean(square(model(toy::random({8, 6}, 7))));
  });
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].rule, "optimizer-eps");
  EXPECT_TRUE(std::isfinite(report.loss));
  EXPECT_NE(preflight_json(report).find("\"rule\":\"optimizer-eps\""), std::string::npos);
}

}  // namespace
}  // namespace binade::amp
