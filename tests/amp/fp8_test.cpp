#include "binade/core/ops/fp8.h"

#include <gtest/gtest.h>

#include <cmath>

#include "binade/amp/state_hash.h"
#include "binade/core/error.h"
#include "binade/io/checkpoint/file.h"
#include "tests/amp/toy.h"

namespace binade::amp {
namespace {

struct Job {
  Runtime runtime;
  toy::Two net;
  optim::AdamW optimizer;
  Trainer trainer;

  explicit Job(const TrainerOptions& options, int threads = 1)
      : runtime({.seed = 1, .threads = threads}),
        optimizer(net, {.lr = 0.02}),
        trainer(runtime, net, optimizer, options) {}
  explicit Job(const Policy& policy) : Job(TrainerOptions{.precision = policy, .state_hash = true}) {}
  StepResult step(const MicroBatches<toy::Batch>& parts) {
    return trainer.step(parts, [&](const toy::Batch& b) {
      return apply_one<toy::SquaredError>({}, {net(b.x), Variable(b.target)});
    });
  }
  StepResult step(std::uint32_t k) { return step(toy::batch(k)); }
  StepResult step(const toy::Batch& b) { return step(MicroBatches<toy::Batch>{{b}}); }
};

TEST(Fp8Policy, IsBf16WithAFlagThatIsPrintedParsedAndSaved) {
  const Policy policy = Policy::by_name("fp8");
  EXPECT_EQ(policy, Policy::fp8());
  EXPECT_EQ(policy.low, DType::bf16);
  EXPECT_TRUE(policy.fp8_linear && policy.master_weights && !policy.dynamic_loss_scale);
  EXPECT_FALSE(Policy::bf16().fp8_linear);
  for (const Policy& p : {policy, policy.with("head", DType::bf16), Policy::bf16()})
    EXPECT_EQ(Policy(PrecisionPolicy::from_string(p.to_string())), p) << p.to_string();
  EXPECT_THROW(PrecisionPolicy::from_string("fp8:bf16:-m--9"), ArgumentError);
  EXPECT_TRUE(reads_fp8(policy, "head", "linear"));
  EXPECT_FALSE(reads_fp8(policy.with("head", DType::bf16), "head", "linear"));
  EXPECT_FALSE(reads_fp8(Policy::bf16(), "head", "linear"));
}

TEST(Fp8Run, LossIsWithinFivePercentOfBf16) {
  const auto loss_after = [](const Policy& policy) {
    Job run(policy);
    double last = 0;
    for (std::uint32_t k = 0; k < 400; ++k) {
      const double loss = run.step(k % 20).loss;
      if (k >= 380) last += loss / 20;
    }
    return last;
  };
  const double first = Job(Policy::bf16()).step(0).loss;
  const double bf16 = loss_after(Policy::bf16()), fp8 = loss_after(Policy::fp8());
  EXPECT_LT(bf16, first / 4);
  EXPECT_LT(std::abs(fp8 - bf16), 0.05 * first) << fp8 << " against " << bf16 << ", from " << first;
  EXPECT_NE(fp8, bf16);
}

TEST(Fp8Run, ResumesToTheSameBits) {
  const auto parts = [](std::uint32_t k) { return MicroBatches<toy::Batch>{{toy::batch(k), toy::batch(k + 1)}}; };
  std::vector<std::string> whole;
  StateDict saved;
  {
    Job run(Policy::fp8());
    for (std::uint32_t k = 0; k < 30; ++k) {
      whole.push_back(run.step(parts(k)).state_hash_after);
      if (k == 11) saved = run.trainer.state();
    }
  }
  EXPECT_TRUE(saved.contains("norm/first.fp8_amax"));
  const io::CheckpointImage image = io::encode_checkpoint(saved, amp::state_hash(saved));
  const StateDict read = io::decode_checkpoint(image.bytes()).state;
  Job run({.precision = Policy::fp8(), .state_hash = true}, 2);
  run.step(3);  // builds its own history, which loading must replace
  run.trainer.load_state(read);
  for (std::uint32_t k = 12; k < 30; ++k) EXPECT_EQ(run.step(parts(k)).state_hash_after, whole[k]) << k;
}

TEST(Fp8Run, ResumesFromACheckpointOfAnotherPrecisionAndBack) {
  StateDict bf16, fp8;
  {
    Job run(Policy::bf16());
    run.step(0);
    bf16 = run.trainer.state();
  }
  {
    Job run(Policy::fp8());
    run.step(3);  // builds its own history, which loading must replace
    run.trainer.load_state(bf16);
    fp8 = run.trainer.state();
    EXPECT_EQ(fp8.tensor("norm/first.fp8_amax").to_vector<float>(), ops::fp8_amaxes(Device::cpu()).to_vector<float>());
    EXPECT_TRUE(run.step(1).committed);
  }
  Job run(Policy::bf16());
  run.trainer.load_state(fp8);
  EXPECT_EQ(run.trainer.state_hash(), amp::state_hash(bf16));
}

TEST(Fp8Run, TheTrainersPolicyDecidesWhetherThereAreHistories) {
  Runtime runtime({.seed = 1});
  toy::Two net;
  nn::use_fp8(net);
  optim::AdamW optimizer(net, {});
  { const Trainer trainer(runtime, net, optimizer, {.precision = Policy::bf16()}); }
  EXPECT_FALSE(net.first.fp8_amax.committed().defined());
  { const Trainer trainer(runtime, net, optimizer, {.precision = Policy::fp8()}); }
  EXPECT_TRUE(net.first.fp8_amax.committed().defined());
}

TEST(Fp8Run, AJumpOfMagnitudesSaturatesOneStepWithoutAnIncident) {
  Job run(Policy::fp8());
  for (std::uint32_t k = 0; k < 5; ++k) ASSERT_TRUE(run.step(k).committed);
  toy::Batch large = toy::batch(7);
  for (std::int64_t i = 0; i < large.x.numel(); ++i) large.x.mutable_data<float>()[i] *= 1000;
  const double before = run.net.first.fp8_amax.committed().to_vector<float>()[0];
  const StepResult jump = run.step(large);
  EXPECT_TRUE(jump.committed) << (jump.incident ? jump.incident->what : "");
  const std::vector<float> amaxes = run.net.first.fp8_amax.committed().to_vector<float>();
  EXPECT_GT(amaxes[0], 500 * before) << "seen, and scaled for from here on";
  const StepResult next = run.step(large);
  EXPECT_TRUE(next.committed);
  EXPECT_GT(next.loss, 10 * jump.loss) << "what was cut off is there again";
  ASSERT_TRUE(run.step(8).committed);
}

TEST(Fp8Run, ANanInTheInputIsDiagnosedAndLeavesNoTrace) {
  Job run(TrainerOptions{.precision = Policy::fp8(), .state_hash = true, .on_nan = OnNan::kStop});
  for (std::uint32_t k = 0; k < 3; ++k) ASSERT_TRUE(run.step(k).committed);
  const std::string before = run.trainer.state_hash();
  EXPECT_THROW(run.step(toy::with_nan(toy::batch(4))), NumericError);
  const std::vector<StepResult> ended = run.trainer.finished();
  ASSERT_FALSE(ended.empty());
  ASSERT_TRUE(ended.back().incident.has_value());
  EXPECT_EQ(ended.back().state_hash_after, ended.back().state_hash_before);
  EXPECT_EQ(run.trainer.state_hash(), before);
  EXPECT_TRUE(run.step(5).committed);
}

TEST(Fp8Run, AnOpThatIsPromotedIsComputedInF32) {
  Job run(Policy::fp8());
  run.step(0);
  run.trainer.promote("first/linear");
  const std::vector<float> before = run.net.first.fp8_amax.committed().to_vector<float>();
  run.step(1);
  EXPECT_EQ(run.net.first.fp8_amax.committed().to_vector<float>(), before) << "it took no part in this step";
  EXPECT_NE(run.net.second.fp8_amax.committed().to_vector<float>()[1], 0);
}

}  // namespace
}  // namespace binade::amp
