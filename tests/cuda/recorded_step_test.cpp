#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "amp/trainer.h"
#include "autograd/functions/attention.h"
#include "autograd/functions/elementwise.h"
#include "autograd/functions/losses.h"
#include "autograd/functions/reduce.h"
#include "autograd/functions/shape.h"
#include "core/gpus.h"
#include "cuda/gpu.h"
#include "io/image_data.h"
#include "nn/batch_norm.h"
#include "nn/conv2d.h"
#include "nn/dropout.h"
#include "optim/adam.h"
#include "optim/lion.h"
#include "optim/sgd.h"

// Steps that the device makes by itself beside the same steps made op by op: every bit of the state must be the same.
namespace binade::amp {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr std::int64_t kSteps = 12;

/// Statistics, random numbers and 16-bit copies: everything that a step changes.
struct Net : nn::Module {
  nn::Conv2d first{{.in = 1, .out = 8, .kernel = 3, .padding = 1, .bias = false}};
  nn::BatchNorm2d norm{{.channels = 8}};
  nn::Dropout drop{{.p = 0.2}};
  nn::Conv2d last{{.in = 8, .out = 1, .kernel = 1}};

  void visit(nn::Visitor& v) override {
    v("first", first);
    v("norm", norm);
    v("drop", drop);
    v("last", last);
  }
  Variable forward(const Variable& x) override { return last(drop(relu(norm(first(x))))); }
};

/// Images with a bright square, whose place is the mask.
io::ImageBatch batch(std::uint32_t k, std::int64_t rows = 4, std::int64_t side = 8) {
  io::ImageBatch b;
  b.images = Tensor::empty({rows, side, side, 1});
  b.masks = Tensor::zeros({rows, side, side}, DType::u8);
  const RandomStream stream{11, RngPurpose::kData, 0, 0, k};
  auto* x = b.images.mutable_data<float>();
  auto* m = b.masks.mutable_data<std::uint8_t>();
  for (std::int64_t i = 0; i < b.images.numel(); ++i) {
    m[i] = stream.word(static_cast<std::uint64_t>(i)) % 3 == 0 ? 1 : 0;
    x[i] = 2 * stream.uniform(static_cast<std::uint64_t>(i)) - 1 + static_cast<float>(m[i]);
  }
  for (std::int64_t row = 0; row < rows; ++row) b.origin.samples.push_back(row);
  return b;
}

Variable maths(Net& net, const io::ImageBatch& b) {
  Tensor target = Tensor::empty(b.images.shape(), DType::f32, b.images.device());
  target.copy_from(b.masks.reshape(b.images.shape()));
  return bce_with_logits(net(Variable(b.images)), Variable(target));
}

/// The same with attention and a division, both of which feel how large the images are.
Variable watched_maths(Net& net, const io::ImageBatch& b) {
  const Shape& shape = b.images.shape();
  const Variable x(b.images);
  const Variable tokens = reshape(net.first(x), {shape.dim(0), shape.dim(1) * shape.dim(2), 8});
  const Variable spread = attention(tokens, tokens, tokens, {.scale = 0.02, .heads = 2});
  const Variable near = 1e-16 / (1e-13 / (x * x + 1));
  return maths(net, b) + 1e-3 * mean(spread / (mean(spread * spread) + 1)) + 1e-3 * mean(near);
}

struct Setting {
  std::string name;
  TrainerOptions options{};
  std::string rule = "adamw";
};

/// A run of `kSteps` steps.
struct Training {
  explicit Training(Setting setting, bool record) {
    setting.options.record = record;
    if (setting.rule == "sgd")
      optimizer = std::make_unique<optim::Sgd>(net, optim::SgdOptions{.lr = 0.05, .momentum = 0.9});
    else if (setting.rule == "lion")
      optimizer = std::make_unique<optim::Lion>(net, optim::LionOptions{.lr = 1e-3});
    else
      optimizer = std::make_unique<optim::AdamW>(net, optim::AdamWOptions{.lr = 1e-2});
    trainer.emplace(runtime, net, *optimizer, setting.options);
  }
  /// Of a closure in which there is something to look at.
  StepResult watched_step(const io::ImageBatch& b) {
    return trainer->step(b, [&](const io::ImageBatch& there) { return watched_maths(net, there); });
  }
  StepResult step(const io::ImageBatch& b) {
    return trainer->step(b, [&](const io::ImageBatch& there) { return maths(net, there); });
  }
  Runtime runtime{{.device = Device::cuda(), .seed = 3}};
  Net net;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::optional<Trainer> trainer;
};

/// What a run came to.
struct Trace {
  std::vector<StepResult> results;
  std::string hash;
};

Trace trace(const Setting& setting, bool record,
            const std::function<void(Training&, std::vector<StepResult>&)>& steps) {
  Training run(setting, record);
  Trace trace;
  steps(run, trace.results);
  trace.hash = run.trainer->state_hash();
  return trace;
}

/// The signs of a step.
std::vector<std::string> told(const StepResult& result) {
  std::vector<std::string> lines;
  for (const Sign& sign : result.signs)
    lines.push_back(
        fmt::format("{}: {} {} {} {}", name_of(sign.kind), place_of(sign), sign.what, sign.remedy, sign.confidence));
  return lines;
}

void expect_equal(const Trace& a, const Trace& b) {
  ASSERT_EQ(a.results.size(), b.results.size());
  for (std::size_t i = 0; i < a.results.size(); ++i) {
    const StepResult &x = a.results[i], &y = b.results[i];
    EXPECT_EQ(x.committed, y.committed) << i;
    EXPECT_EQ(x.loss, y.loss) << i;
    EXPECT_EQ(x.grad_norm, y.grad_norm) << i;
    EXPECT_EQ(x.loss_scale, y.loss_scale) << i;
    EXPECT_EQ(x.forward_headroom.binades, y.forward_headroom.binades) << i;
    EXPECT_EQ(x.backward_headroom.binades, y.backward_headroom.binades) << i;
    EXPECT_EQ(x.backward_headroom.op, y.backward_headroom.op) << i;
    EXPECT_EQ(x.incident.has_value(), y.incident.has_value()) << i;
    EXPECT_EQ(x.attention_entropy, y.attention_entropy) << i;
    EXPECT_EQ(x.update_rms, y.update_rms) << i;
    EXPECT_EQ(told(x), told(y)) << i;
  }
  EXPECT_EQ(a.hash, b.hash);
}

class RecordedStep : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  }
};

TEST_P(RecordedStep, LeavesTheBitsThatOpByOpLeaves) {
  const auto steps = [](Training& run, std::vector<StepResult>& results) {
    for (std::uint32_t k = 0; k < kSteps; ++k) results.push_back(run.step(batch(k)));
  };
  expect_equal(trace(GetParam(), true, steps), trace(GetParam(), false, steps));
}

std::vector<Setting> settings() {
  return {{"fp32", {}},
          {"fp32_clipped", {.clip_norm = 0.05}},
          {"fp32_by_value", {.clip_value = 0.01}, "sgd"},
          {"fp32_averaged", {.ema = optim::EmaOptions{.decay = 0.9, .warmup = true}}, "lion"},
          {"fp16", {.precision = Policy::fp16()}},
          {"bf16_unwatched", {.precision = Policy::bf16(), .telemetry = false}},
          {"pure_bf16", {.precision = Policy::pure_bf16()}, "sgd"},
          {"scheduled", {.precision = Policy::bf16(), .schedule = optim::Schedule::cosine(1e-2, 12, 0, 3)}}};
}
INSTANTIATE_TEST_SUITE_P(Settings, RecordedStep, testing::ValuesIn(settings()),
                         [](const auto& setting) { return setting.param.name; });

TEST(RecordedSteps, DoNotWait) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  Training run({"fp16", {.precision = Policy::fp16(), .clip_norm = 1}}, true);
  for (std::int64_t step = 1; step <= 54; ++step) {
    const std::uint64_t before = cuda::waits();
    const StepResult result = run.watched_step(batch(static_cast<std::uint32_t>(step)));
    for (const std::string& note : result.notes) ADD_FAILURE() << note;
    EXPECT_TRUE(result.committed);
    EXPECT_EQ(result.attention_entropy.has_value(), step % 4 == 0) << step;
    // Two of each kind are made op by op, the second to compare its recording; at step 50 the host reads weights.
    if (step > 8 && step != 50) {
      EXPECT_EQ(cuda::waits(), before) << step;
    }
  }
}

TEST(RecordedSteps, SeeTheSignsThatOpByOpTheyShow) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  // Images that grow by 2 % a step: what is made of them comes to its limits.
  const auto steps = [](Training& run, std::vector<StepResult>& results) {
    for (std::uint32_t k = 0; k < 160; ++k) {
      io::ImageBatch b = batch(0, 2, 4);
      const double factor = 4 * std::exp2(0.03 * static_cast<double>(k));
      for (std::int64_t i = 0; i < b.images.numel(); ++i)
        b.images.mutable_data<float>()[i] *= static_cast<float>(factor);
      results.push_back(run.watched_step(b));
    }
  };
  const Setting fp16{"fp16", {.precision = Policy::fp16()}};
  const Trace recorded = trace(fp16, true, steps);
  expect_equal(recorded, trace(fp16, false, steps));
  std::vector<std::string> all;
  for (const StepResult& result : recorded.results)
    for (const Sign& sign : result.signs) all.emplace_back(name_of(sign.kind));
  for (const SignKind kind : {SignKind::kOverflow, SignKind::kPole, SignKind::kCollapse})
    EXPECT_THAT(all, testing::Contains(name_of(kind)));
}

TEST(RecordedSteps, RunTheClosureOnlyWhenTheyAreRecorded) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  Training run({"fp32"}, true);
  int calls = 0;
  for (std::uint32_t k = 0; k < 8; ++k)
    run.trainer->step(batch(k), [&](const io::ImageBatch& b) {
      ++calls;
      return maths(run.net, b);
    });
  // The first step, and then for those that telemetry looks into and those that it does not: one op by op, a rehearsal,
  // the recording, one to compare.
  EXPECT_LE(calls, 9);
}

TEST(RecordedSteps, OfTwoSizesAreKeptSideBySide) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const auto steps = [](Training& run, std::vector<StepResult>& results) {
    for (std::uint32_t k = 0; k < kSteps; ++k) results.push_back(run.step(batch(k, k % 3 == 2 ? 2 : 4)));
  };
  expect_equal(trace({"fp32"}, true, steps), trace({"fp32"}, false, steps));
}

TEST(RecordedSteps, TakeMicroBatches) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const auto steps = [](Training& run, std::vector<StepResult>& results) {
    for (std::uint32_t k = 0; k < kSteps; ++k) {
      const MicroBatches<io::ImageBatch> parts{{batch(2 * k), batch(2 * k + 1)}};
      results.push_back(run.trainer->step(parts, [&](const io::ImageBatch& b) { return maths(run.net, b); }));
    }
  };
  const Setting fp16{"fp16", {.precision = Policy::fp16(), .clip_norm = 0.5}};
  expect_equal(trace(fp16, true, steps), trace(fp16, false, steps));
}

TEST(RecordedSteps, ThatGoBadAreMadeAgainOpByOp) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const auto steps = [](Training& run, std::vector<StepResult>& results) {
    for (std::uint32_t k = 0; k < kSteps; ++k) {
      io::ImageBatch b = batch(k);
      if (k == 7) b.images.mutable_data<float>()[70] = std::numeric_limits<float>::quiet_NaN();
      results.push_back(run.step(b));
    }
  };
  const Trace recorded = trace({"fp32"}, true, steps);
  expect_equal(recorded, trace({"fp32"}, false, steps));
  EXPECT_EQ(recorded.results[7].rows_left_out, (std::vector<std::int64_t>{1}));
}

TEST(RecordedSteps, LowerTheScaleOfAnOverflowAndGoOn) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const auto steps = [](Training& run, std::vector<StepResult>& results) {
    for (std::uint32_t k = 0; k < kSteps; ++k) {
      io::ImageBatch b = batch(k);
      if (k == 8)
        for (std::int64_t i = 0; i < b.images.numel(); ++i) b.images.mutable_data<float>()[i] *= 3000;
      results.push_back(run.step(b));
    }
  };
  const Setting fp16{"fp16", {.precision = Policy::fp16(), .loss_scale = LossScaleOptions::dynamic(0x1p19)}};
  expect_equal(trace(fp16, true, steps), trace(fp16, false, steps));
}

TEST(RecordedSteps, WhoseClosureReadsWhatChangesAreFoundOut) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  Training run({"fp32"}, true);
  double weight = 1;
  std::vector<std::string> notes;
  for (std::uint32_t k = 0; k < 52; ++k) {
    if (k == 30) weight = 2;
    const StepResult result = run.trainer->step(batch(k),
                                                [&](const io::ImageBatch& b) { return maths(run.net, b) * weight; });
    EXPECT_TRUE(result.committed);
    for (const std::string& note : result.notes) notes.push_back(fmt::format("{}: {}", result.step, note));
  }
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], StartsWith("50: "));
  EXPECT_THAT(notes[0], HasSubstr("the closure reads something besides its batch"));
}

TEST(RecordedSteps, WhoseClosureLooksAtNumbersAreMadeOpByOp) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  Training run({"fp32"}, true);
  std::vector<std::string> notes;
  for (std::uint32_t k = 0; k < 6; ++k) {
    const StepResult result = run.trainer->step(batch(k), [&](const io::ImageBatch& b) {
      const Variable loss = maths(run.net, b);
      EXPECT_TRUE(std::isfinite(loss.item()));
      return loss;
    });
    EXPECT_TRUE(result.committed);
    notes.insert(notes.end(), result.notes.begin(), result.notes.end());
  }
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes[0], HasSubstr("not recorded"));
}

}  // namespace
}  // namespace binade::amp
