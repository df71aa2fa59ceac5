#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "binade/amp/incident/report.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/error.h"
#include "tests/amp/lab.h"

// Micro-batches that are computed twice and compared bit for bit (TrainerOptions::verify_every).
namespace binade::amp {
namespace {

using toy::Lab;
using toy::LabBatch;

/// y = x, but changes the last bit of one value in call i if `strikes(i)` is true, like a processor that sometimes
/// computes a wrong result.
struct Unreliable {
  struct Params {
    std::function<bool()> strikes = [] { return false; };
    bool backward = false;
  };
  static constexpr OpInfo info{.name = "unreliable", .inputs = "x"};
  static Tensors forward(OpContext&, std::span<const Tensor> in, const Params& p) {
    return {spoiled(in[0], !p.backward && p.strikes())};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    if (gx.needs(0)) gx.set(0, spoiled(gy[0], p.backward && p.strikes()));
  }
  static Tensor spoiled(const Tensor& x, bool now) {
    std::vector<float> values = x.to_vector<float>();
    if (now) values[2] = std::nextafter(values[2], 1e9f);
    return Tensor::from(values, x.shape());
  }
};

/// A lab whose loss is computed with an Unreliable in it.
struct UnreliableLab : Lab {
  using Lab::Lab;
  std::int64_t calls = 0;
  std::function<bool(std::int64_t call)> strikes = [](std::int64_t) { return false; };
  bool in_backward = false;

  Variable unreliable_loss(const LabBatch& b) {
    const Variable y = apply_one<Unreliable>({.strikes = [this] { return strikes(++calls); }, .backward = in_backward},
                                             {model(b.x)});
    return apply_one<toy::SquaredError>({}, {y, Variable(b.target)});
  }
  StepResult unreliable_step() {
    return step([this](const LabBatch& b) { return unreliable_loss(b); });
  }
};

std::string hash_after(Lab& lab, int steps) {
  for (int k = 0; k < steps; ++k) EXPECT_TRUE(lab.step().committed);
  return lab.trainer.state_hash();
}
std::string hash_after(TrainerOptions options, int steps) {
  Lab lab(std::move(options));
  return hash_after(lab, steps);
}

const std::string kFlippedBit = "bitflip@step=4,path=second,op=linear,bit=12";

TEST(Verification, ChangesNoBitAndIsCounted) {
  const std::string unverified = hash_after(TrainerOptions{}, 5);
  Lab lab({.verify_every = 2});
  EXPECT_EQ(hash_after(lab, 5), unverified);
  std::vector<bool> verified;
  const std::vector<StepResult> results = lab.trainer.finished();
  for (const StepResult& r : results) {
    verified.push_back(r.verified);
    EXPECT_FALSE(r.incident.has_value());
  }
  EXPECT_EQ(verified, (std::vector<bool>{false, true, false, true, false}));
  EXPECT_EQ(results.back().verified_total, 2);
  EXPECT_EQ(results.back().corrupted_total, 0);
}

TEST(Verification, FindsTheOpWhoseResultHadAFlippedBit) {
  const std::string without_fault = hash_after(TrainerOptions{}, 5);
  EXPECT_NE(hash_after({.inject = {kFlippedBit}}, 5), without_fault) << "nobody else notices it";
  Lab lab({.verify_every = 2, .inject = {kFlippedBit}});
  EXPECT_EQ(hash_after(lab, 5), without_fault) << "the step is computed again, without the flipped bit";
  const std::vector<StepResult> results = lab.trainer.finished();
  ASSERT_EQ(results.size(), 6u);
  ASSERT_TRUE(results[3].incident.has_value());
  EXPECT_EQ(results[3].state_hash_before, results[3].state_hash_after);
  const Incident& incident = *results[3].incident;
  EXPECT_EQ(incident.step, 4);
  EXPECT_EQ(incident.what,
            "micro-batch 0 was computed twice, with different bits, first in 'linear' in second (forward)");
  EXPECT_EQ(incident.diagnosis.cause, CauseClass::kNotReproducible);
  EXPECT_EQ(incident.diagnosis.confidence, Confidence::kProven);
  ASSERT_TRUE(incident.diagnosis.first_bad.has_value());
  EXPECT_EQ(incident.diagnosis.first_bad->module, "second");
  EXPECT_EQ(incident.diagnosis.first_bad->op, "linear");
  EXPECT_EQ(incident.diagnosis.first_bad->direction, "forward");
  EXPECT_EQ(incident.remedy.action, RemedyAction::kNone);
  EXPECT_NE(report_markdown(incident).find("output is not the same twice"), std::string::npos);
  EXPECT_EQ(results.back().corrupted_total, 1);
  EXPECT_EQ(results.back().verified_total, 3) << "the step's second attempt is verified too";
}

TEST(Verification, FindsAFlippedExponentBitBeforeTheDiagnosisOfItsInfinity) {
  const std::string without_fault = hash_after(TrainerOptions{}, 3);
  Lab lab({.verify_every = 1, .inject = {"bitflip@step=2,path=first,op=linear"}});
  EXPECT_EQ(hash_after(lab, 3), without_fault);
  const std::vector<Incident> incidents = lab.incidents();
  ASSERT_EQ(incidents.size(), 1u);
  EXPECT_EQ(incidents[0].diagnosis.first_bad.value().module, "first");
}

TEST(Verification, FindsTheBackwardWhoseGradientDiffered) {
  UnreliableLab lab({.verify_every = 3});
  lab.in_backward = true;
  lab.strikes = [](std::int64_t call) {
    return call == 4;
  };  // step 3: call 3 in the first computation, 4 in the second
  for (int k = 0; k < 4; ++k) EXPECT_TRUE(lab.unreliable_step().committed);
  const std::vector<Incident> incidents = lab.incidents();
  ASSERT_EQ(incidents.size(), 1u);
  EXPECT_EQ(incidents[0].step, 3);
  EXPECT_EQ(incidents[0].diagnosis.first_bad.value().op, "unreliable");
  EXPECT_EQ(incidents[0].diagnosis.first_bad.value().direction, "backward");
}

TEST(Verification, StopsIfTheBitsDifferAgainAndAgain) {
  UnreliableLab lab({.verify_every = 1});
  lab.strikes = [](std::int64_t call) { return call % 2 == 0; };  // in each second computation
  EXPECT_THROW(lab.unreliable_step(), NumericError);
  EXPECT_EQ(lab.trainer.steps(), 0);
  EXPECT_EQ(lab.incidents().size(), 4u) << "three retries";
}

TEST(Verification, AClosureThatRunsOtherOpsIsNamed) {
  Lab lab({.verify_every = 1});
  int calls = 0;
  const StepResult result = lab.step([&](const LabBatch& b) {
    const Variable loss = lab.loss(b);
    return ++calls == 2 ? relu(loss) : loss;
  });
  EXPECT_TRUE(result.committed);
  const std::vector<Incident> incidents = lab.incidents();
  ASSERT_EQ(incidents.size(), 1u);
  EXPECT_NE(incidents[0].what.find("with different ops"), std::string::npos) << incidents[0].what;
}

TEST(Verification, ComparesTheFirstMicroBatchOfSeveral) {
  const auto hash = [](TrainerOptions options, std::size_t incidents) {
    options.accumulate = 3;
    Lab lab(std::move(options));
    for (int k = 0; k < 4; ++k) {
      MicroBatches<LabBatch> batches;
      for (int i = 0; i < 3; ++i) batches.batches.push_back(lab.loader.next());
      EXPECT_TRUE(lab.trainer.step(batches, [&](const LabBatch& b) { return lab.loss(b); }).committed);
    }
    EXPECT_EQ(lab.incidents().size(), incidents);
    return lab.trainer.state_hash();
  };
  const std::string clean = hash({}, 0);
  EXPECT_EQ(hash({.verify_every = 2}, 0), clean);
  EXPECT_EQ(hash({.verify_every = 2, .inject = {kFlippedBit}}, 1), clean);
}

TEST(Verification, ComparesTheFirstOfSeveralPhases) {
  const auto hash = [](std::int64_t verify_every) {
    Runtime runtime({.seed = 3});
    toy::Two critic, maker;
    optim::Adam of_critic(critic, {.lr = 1e-2}), of_maker(maker, {.lr = 1e-2});
    Trainer trainer(runtime, {{"critic", critic}, {"maker", maker}}, {{"critic", of_critic}, {"maker", of_maker}},
                    {.verify_every = verify_every});
    for (std::uint32_t k = 0; k < 4; ++k) {
      const StepResult result = trainer.step(
          toy::batch(k), Phases(phase(of_critic, [&](const toy::Batch& b) { return mean(critic(b.x) * critic(b.x)); }),
                                phase(of_maker, [&](const toy::Batch& b) { return mean(maker(b.x) * critic(b.x)); })));
      EXPECT_TRUE(result.committed);
      EXPECT_FALSE(result.incident.has_value());
      EXPECT_EQ(result.verified, verify_every == 1);
    }
    return trainer.state_hash();
  };
  EXPECT_EQ(hash(1), hash(0));
}

/// If a step has more calls than checksums, the last calls share a checksum. Later phases are not computed twice, so
/// their calls must not be part of it.
TEST(Verification, ManyOpsBeforeALaterPhaseAreNoCorruption) {
  Runtime runtime({.seed = 3});
  toy::Two critic, maker;
  optim::Sgd of_critic(critic), of_maker(maker);
  Trainer trainer(runtime, {{"critic", critic}, {"maker", maker}}, {{"critic", of_critic}, {"maker", of_maker}},
                  {.verify_every = 1});
  const auto loss = [](nn::Module& net, const toy::Batch& b, int ops) {
    Variable y = mean(net(b.x));
    for (int i = 0; i < ops; ++i) y = y + 0.0;
    return y;
  };
  const StepResult result = trainer.step(
      toy::batch(1), Phases(phase(of_critic, [&](const toy::Batch& b) { return loss(critic, b, 33000); }),
                            phase(of_maker, [&](const toy::Batch& b) { return loss(maker, b, 1); })));
  EXPECT_TRUE(result.committed);
  EXPECT_TRUE(result.verified);
  EXPECT_EQ(result.corrupted_total, 0);
}

TEST(Verification, CountersAreKeptInCheckpoints) {
  StateDict state;
  {
    Lab lab({.verify_every = 1, .inject = {"bitflip@step=2,path=first,op=linear,bit=3"}});
    hash_after(lab, 2);
    state = lab.trainer.state();
  }
  Lab later({.verify_every = 1});
  later.trainer.load_state(state);
  later.step();
  const StepResult result = later.trainer.finished().back();
  EXPECT_EQ(result.verified_total, 4);
  EXPECT_EQ(result.corrupted_total, 1);
}

TEST(Verification, RefusesANegativeInterval) { EXPECT_THROW(Lab({.verify_every = -1}), ArgumentError); }

}  // namespace
}  // namespace binade::amp
