#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "binade/core/backend.h"
#include "binade/core/gpus.h"
#include "examples/transformer/gpt.h"
#include "examples/unet/unet.h"
#include "tests/lab/pair_batch.h"

// Both example models on the device: compared with the CPU in 16 bits, and with recomputed activations.
namespace binade::examples {
namespace {

Tensor tokens_of(const Shape& shape, std::uint32_t which, std::uint64_t vocabulary) {
  const RandomStream numbers{5, RngPurpose::kData, 0, 0, which};
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(numbers.below(i, vocabulary));
  return Tensor::from(tokens, shape);
}

Tensor image_of(const Shape& shape, std::uint32_t which, bool mask) {
  const RandomStream numbers{6, RngPurpose::kData, 0, 0, which};
  std::vector<float> pixels(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < pixels.size(); ++i)
    pixels[i] = mask ? static_cast<float>(numbers.uniform(i) > 0.5) : numbers.uniform(i);
  return Tensor::from(pixels, shape);
}

/// Losses, weights and peak memory after a few steps of a model.
struct Trace {
  std::vector<double> losses, scales;
  std::string hash;
  std::size_t peak = 0;  // bytes of tensors in addition to those before the steps
};

/// One of the two models, with a batch for each step.
struct Training {
  bool recompute = false;
  double dropout = 0;
  std::int64_t rows = 4;
  std::int64_t base = 8, size = 16;  // base and image size of the U-Net

  Trace gpt(const Device& device, const amp::Policy& policy, int steps) const {
    Runtime runtime({.device = device, .seed = 2});
    Gpt model({.layers = 3,
               .heads = 2,
               .dim = 32,
               .context = 16,
               .vocabulary = 61,
               .table = 64,
               .dropout = dropout,
               .recompute = recompute});
    optim::AdamW optimizer(model, {.lr = 3e-3, .weight_decay = 0.1});
    return steps_of(runtime, model, optimizer, policy, steps, [&](std::uint32_t step) {
      const Tensor tokens = tokens_of({rows, 16}, step, 61).to(device);
      return nn::cross_entropy(model(tokens), tokens);
    });
  }
  Trace unet(const Device& device, const amp::Policy& policy, int steps) const {
    Runtime runtime({.device = device, .seed = 2});
    UNet model({.base = base, .depth = 2, .recompute = recompute});
    optim::Adam optimizer(model, {.lr = 1e-3});
    return steps_of(runtime, model, optimizer, policy, steps, [&](std::uint32_t step) {
      const Tensor x = image_of({rows, size, size, 1}, step, false).to(device);
      return bce_with_logits(model(x), image_of({rows, size, size, 1}, step, true).to(device));
    });
  }

 private:
  template <class LossOf>
  static Trace steps_of(Runtime& runtime, nn::Module& model, optim::Optimizer& optimizer, const amp::Policy& policy,
                        int steps, const LossOf& loss_of) {
    amp::Trainer trainer(runtime, model, optimizer, {.precision = policy, .clip_norm = 1});
    Backend& backend = backend_of(runtime.device());
    const std::size_t before = backend.bytes_in_use();
    Trace trace;
    for (int step = 1; step <= steps; ++step) {
      const amp::StepResult result = trainer.step(static_cast<std::uint32_t>(step), loss_of);
      EXPECT_TRUE(result.committed);
      trace.losses.push_back(result.loss);
      trace.scales.push_back(result.loss_scale);
      trace.peak = std::max(trace.peak, backend.bytes_peak() - before);
    }
    trace.hash = trainer.state_hash();
    return trace;
  }
};

/// Device and CPU add the terms of a sum in f32, but in different orders, so that a 16-bit result may differ by one
/// unit. The first loss, a mean over many results, then differs by less than one rounding. Updates amplify differences:
/// Adam's update for a gradient of 1e-9 is as large as for a gradient of 1, and its sign depends on rounding. So device
/// and CPU may differ by twice as much as the 16-bit run on the CPU differs from the f32 run. The factor of two is
/// needed because a single run measures this difference only roughly.
void expect_similar_training(const Trace& device, const Trace& cpu, const Trace& cpu_in_f32, DType half) {
  const double unit_roundoff = half == DType::f16 ? 0x1p-11 : 0x1p-8;
  EXPECT_NEAR(device.losses[0], cpu.losses[0], unit_roundoff * cpu.losses[0]);
  double effect_of_halves = 0;
  for (std::size_t step = 0; step < cpu.losses.size(); ++step)
    effect_of_halves = std::max(effect_of_halves, std::abs(cpu.losses[step] - cpu_in_f32.losses[step]));
  for (std::size_t step = 0; step < cpu.losses.size(); ++step)
    EXPECT_NEAR(device.losses[step], cpu.losses[step], 4 * effect_of_halves) << "step " << step + 1;
  EXPECT_EQ(device.scales, cpu.scales);
}

class ModelsInHalves : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  }
  static constexpr int kSteps = 20;
  const amp::Policy policy_ = GetParam() == DType::f16 ? amp::Policy::fp16() : amp::Policy::bf16();
};

TEST_P(ModelsInHalves, ATransformerTrainsAsOnTheCpu) {
  const Training training;
  expect_similar_training(training.gpt(Device::cuda(), policy_, kSteps), training.gpt(Device::cpu(), policy_, kSteps),
                          training.gpt(Device::cpu(), amp::Policy::fp32(), kSteps), GetParam());
}
TEST_P(ModelsInHalves, AUNetTrainsAsOnTheCpu) {
  const Training training;
  expect_similar_training(training.unet(Device::cuda(), policy_, kSteps), training.unet(Device::cpu(), policy_, kSteps),
                          training.unet(Device::cpu(), amp::Policy::fp32(), kSteps), GetParam());
}
INSTANTIATE_TEST_SUITE_P(Halves, ModelsInHalves, testing::Values(DType::f16, DType::bf16),
                         [](const auto& of) { return std::string(name_of(of.param)); });

void expect_the_same_for_less(const Trace& recomputed, const Trace& kept) {
  EXPECT_EQ(recomputed.losses, kept.losses);
  EXPECT_EQ(recomputed.hash, kept.hash);
  EXPECT_LT(recomputed.peak, kept.peak);
}

TEST(RecomputeOnADevice, OfATransformerGivesTheSameBitsWithLessMemory) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const Training kept{.dropout = 0.2, .rows = 8}, recomputed{.recompute = true, .dropout = 0.2, .rows = 8};
  for (const amp::Policy& policy : {amp::Policy::fp32(), amp::Policy::fp16()})
    expect_the_same_for_less(recomputed.gpt(Device::cuda(), policy, 2), kept.gpt(Device::cuda(), policy, 2));
}
TEST(RecomputeOnADevice, OfAUNetGivesTheSameBitsWithLessMemory) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const Training kept{.base = 4, .size = 32}, recomputed{.recompute = true, .base = 4, .size = 32};
  for (const amp::Policy& policy : {amp::Policy::fp32(), amp::Policy::bf16()})
    expect_the_same_for_less(recomputed.unet(Device::cuda(), policy, 2), kept.unet(Device::cuda(), policy, 2));
}

// ---- forecast of memory before the first step

struct OfDevice {
  Device device;
  amp::Policy policy;
  bool recompute = false;
  std::int64_t accumulate = 1;
};
void PrintTo(const OfDevice& of, std::ostream* out) {
  *out << of.device.to_string() << " " << of.policy.name << (of.recompute ? " recomputed" : "");
}
class ForecastOfMemory : public testing::TestWithParam<OfDevice> {
 protected:
  void SetUp() override {
    if (GetParam().device != Device::cpu() && gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  }

  static lab::PairBatch batch(const Tensor& x, const Tensor& y) {
    io::BatchOrigin origin;
    for (std::int64_t row = 0; row < x.dim(0); ++row) {
      origin.samples.push_back(row);
      origin.slots.push_back(static_cast<std::uint64_t>(row));
    }
    return {x.to(GetParam().device), y.to(GetParam().device), std::move(origin)};
  }

  /// Trains on `b` with and without a memory forecast before the first step. Expects equal bits, and that the forecast
  /// is right.
  template <class MakeModel, class LossOf>
  static void expect_it_comes_true(const MakeModel& make, const lab::PairBatch& b, const LossOf& loss_of) {
    std::string hashes[2];
    for (const bool forecasts : {false, true}) {
      Runtime runtime({.device = GetParam().device, .seed = 2});  // so that both runs have the same initial weights
      auto model = make();
      optim::AdamW optimizer(*model, {.lr = 1e-3});
      amp::Trainer trainer(runtime, *model, optimizer,
                           {.precision = GetParam().policy, .clip_norm = 1, .accumulate = GetParam().accumulate});
      const auto maths = [&](const lab::PairBatch& part) { return loss_of(*model, part); };
      Backend& backend = backend_of(GetParam().device);
      std::optional<amp::MemoryForecast> forecast;
      if (forecasts) {
        const std::string before = trainer.state_hash();
        forecast = trainer.forecast_memory(b, maths);
        EXPECT_EQ(trainer.state_hash(), before);
        ASSERT_TRUE(forecast);
      }
      std::size_t peak = 0;
      amp::MicroBatches<lab::PairBatch> parts;
      for (std::int64_t i = 0; i < GetParam().accumulate; ++i) parts.batches.push_back(b);
      for (int step = 0; step < 2; ++step) {
        trainer.step(parts, maths);
        peak = std::max(peak, backend.bytes_peak());
      }
      hashes[forecasts] = trainer.state_hash();
      if (forecast) {
        EXPECT_NEAR(forecast->bytes / static_cast<double>(peak), 1, 0.1);
      }
    }
    EXPECT_EQ(hashes[0], hashes[1]);
  }
};

TEST_P(ForecastOfMemory, EqualsTheMemoryOfATransformer) {
  const Tensor tokens = tokens_of({12, 16}, 0, 61);
  expect_it_comes_true(
      [] {
        return std::make_unique<Gpt>(GptOptions{.layers = 3,
                                                .heads = 2,
                                                .dim = 32,
                                                .context = 16,
                                                .vocabulary = 61,
                                                .table = 64,
                                                .recompute = GetParam().recompute});
      },
      batch(tokens, tokens), [](Gpt& model, const lab::PairBatch& b) { return nn::cross_entropy(model(b.x), b.y); });
}
TEST_P(ForecastOfMemory, EqualsTheMemoryOfAUNet) {
  const Shape shape{6, 16, 16, 1};
  expect_it_comes_true(
      [] { return std::make_unique<UNet>(UNetOptions{.base = 4, .depth = 2, .recompute = GetParam().recompute}); },
      batch(image_of(shape, 0, false), image_of(shape, 0, true)),
      [](UNet& model, const lab::PairBatch& b) { return bce_with_logits(model(b.x), b.y); });
}
INSTANTIATE_TEST_SUITE_P(Models, ForecastOfMemory,
                         testing::Values(OfDevice{Device::cpu(), amp::Policy::fp32()},
                                         OfDevice{Device::cpu(), amp::Policy::fp16(), true},
                                         OfDevice{Device::cpu(), amp::Policy::bf16(), false, 3},
                                         OfDevice{Device::cuda(), amp::Policy::fp32()},
                                         OfDevice{Device::cuda(), amp::Policy::fp16(), true}));

}  // namespace
}  // namespace binade::examples
