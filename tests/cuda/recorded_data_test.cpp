#include <gtest/gtest.h>

#include <limits>

#include "binade/amp/step/trainer.h"
#include "binade/autograd/functions/losses.h"
#include "binade/core/gpus.h"
#include "binade/io/data/text_data.h"
#include "binade/nn/embedding.h"
#include "binade/nn/linear.h"
#include "binade/optim/adam.h"
#include "binade/optim/ema.h"

// Bad labels and damaged averages in captured steps, compared with the same steps run eagerly.
namespace binade::amp {
namespace {

constexpr std::int64_t kRows = 4, kContext = 3, kTokens = 7;

struct Net : nn::Module {
  nn::Embedding table{{.count = kTokens, .dim = 8}};
  nn::Linear head{{.in = 8, .out = kTokens}};
  void visit(nn::Visitor& v) override {
    v("table", table);
    v("head", head);
  }
};

io::TextBatch batch(std::int64_t k) {
  io::TextBatch b{Tensor::zeros({kRows, kContext}, DType::i32), Tensor::zeros({kRows, kContext}, DType::i32)};
  for (std::int64_t i = 0; i < kRows * kContext; ++i) {
    b.tokens.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>((3 * i + k) % kTokens);
    b.targets.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>((3 * i + k + 1) % kTokens);
  }
  for (std::int64_t row = 0; row < kRows; ++row) b.origin.samples.push_back(100 * k + row);
  return b;
}

struct TextRun {
  Runtime runtime{{.device = Device::cuda(), .seed = 3}};
  Net net;
  optim::AdamW optimizer{net, {.lr = 1e-2}};
  Trainer trainer;
  explicit TextRun(bool record)
      : trainer(runtime, net, optimizer, {.ema = optim::EmaOptions{.decay = 0.9}, .record = record}) {}
  StepResult step(const io::TextBatch& b) {
    return trainer.step(b, [this](const io::TextBatch& there) {
      return cross_entropy(net.head(net.table(Variable(there.tokens))), Variable(there.targets));
    });
  }
};

struct Outcome {
  std::string hash{};
  std::vector<std::string> incidents{};
};

using Harm = std::function<void(TextRun& run, io::TextBatch& batch, std::int64_t k)>;

Outcome train(bool record, const Harm& harm) {
  TextRun run(record);
  Outcome outcome;
  for (std::int64_t k = 1; k <= 20; ++k) {
    io::TextBatch b = batch(k);
    harm(run, b, k);
    const StepResult result = run.step(b);
    EXPECT_TRUE(result.committed) << k;
    for (const Incident* one : result.incidents())
      outcome.incidents.push_back(fmt::format("{}: {} {}, {}", one->step, name_of(one->diagnosis.cause),
                                              name_of(one->remedy.action), one->remedy.target));
  }
  outcome.hash = run.trainer.state_hash();
  return outcome;
}

void expect_equal_to_eager(const Harm& harm, const std::string& incident) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const Outcome captured = train(true, harm), eager = train(false, harm);
  EXPECT_EQ(captured.incidents, std::vector<std::string>{incident});
  EXPECT_EQ(captured.incidents, eager.incidents);
  EXPECT_EQ(captured.hash, eager.hash);
}

TEST(RecordedSteps, WithALabelOutOfRangeQuarantineItsSample) {
  const auto label = [](TextRun&, io::TextBatch& b, std::int64_t k) {
    if (k == 12) b.targets.mutable_data<std::int32_t>()[2 * kContext + 1] = kTokens;
  };
  expect_equal_to_eager(label, "12: bad-input quarantine-sample, 1202");
}

TEST(RecordedSteps, WithATokenOutOfRangeInTheFirstStepQuarantineItsSample) {
  const auto token = [](TextRun&, io::TextBatch& b, std::int64_t k) {
    if (k == 1) b.tokens.mutable_data<std::int32_t>()[kContext] = -1;
  };
  expect_equal_to_eager(token, "1: bad-input quarantine-sample, 101");
}

TEST(RecordedSteps, WithADamagedAverageMendIt) {
  const auto damage = [](TextRun& run, io::TextBatch&, std::int64_t k) {
    if (k != 12) return;
    Tensor average = run.trainer.ema()->average(1), bad = average.on_host().clone();
    bad.mutable_data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    average.copy_from(bad);
  };
  expect_equal_to_eager(damage, "12: corrupted-state mend-averages, average of head.weight");
}

}  // namespace
}  // namespace binade::amp
