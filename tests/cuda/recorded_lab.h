#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "binade/amp/step/trainer.h"
#include "binade/autograd/functions/attention.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/io/data/image_data.h"
#include "binade/nn/batch_norm.h"
#include "binade/nn/conv2d.h"
#include "binade/nn/dropout.h"
#include "binade/optim/adam.h"
#include "binade/optim/adam_variants.h"
#include "binade/optim/lion.h"
#include "binade/optim/rprop.h"
#include "binade/optim/schedule_free.h"
#include "binade/optim/sgd.h"
#include "tests/optim/rmsprop.h"

// A small training on a GPU, eager or captured, for tests that compare both bit for bit.
namespace binade::amp::recorded_lab {

inline constexpr std::int64_t kSteps = 12;

/// A network with batch-norm statistics, random numbers (dropout) and 16-bit copies, all of which a step changes.
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

/// Returns images with a bright square, which the mask marks.
inline io::ImageBatch batch(std::uint32_t k, std::int64_t rows = 4, std::int64_t side = 8) {
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

inline Variable loss_of(Net& net, const io::ImageBatch& b) {
  Tensor target = Tensor::empty(b.images.shape(), DType::f32, b.images.device());
  target.copy_from(b.masks.reshape(b.images.shape()));
  return bce_with_logits(net(Variable(b.images)), Variable(target));
}

/// A loss with an attention and a division. If the images become too large, there are warnings about both.
inline Variable loss_with_probes(Net& net, const io::ImageBatch& b) {
  const Shape& shape = b.images.shape();
  const Variable x(b.images);
  const Variable tokens = reshape(net.first(x), {shape.dim(0), shape.dim(1) * shape.dim(2), 8});
  const Variable spread = attention(tokens, tokens, tokens, {.scale = 0.02, .heads = 2});
  const Variable near = 1e-16 / (1e-13 / (x * x + 1));
  return loss_of(net, b) + 1e-3 * mean(spread / (mean(spread * spread) + 1)) + 1e-3 * mean(near);
}

struct Setting {
  std::string name{};
  TrainerOptions options{};
  std::string rule = "adamw";
};

/// A network with an optimizer and a trainer.
struct Training {
  explicit Training(Setting setting, bool record) {
    setting.options.record = record;
    if (setting.rule == "two") {
      make_two(setting.options);
      return;
    }
    if (setting.rule == "sgd")
      optimizer = std::make_unique<optim::Sgd>(net, optim::SgdOptions{.lr = 0.05, .momentum = 0.9});
    else if (setting.rule == "lion")
      optimizer = std::make_unique<optim::Lion>(net, optim::LionOptions{.lr = 1e-3});
    else if (setting.rule == "rmsprop")
      optimizer = std::make_unique<user::Rmsprop>(net, user::RmspropOptions{.lr = 1e-3});
    else if (setting.rule == "amsgrad")
      optimizer = std::make_unique<optim::AdamW>(net, optim::AdamWOptions{.lr = 1e-2, .amsgrad = true});
    else if (setting.rule == "schedule_free")
      optimizer = std::make_unique<optim::ScheduleFreeAdamW>(net,
                                                             optim::ScheduleFreeAdamWOptions{.lr = 2e-2, .warmup = 6});
    else if (setting.rule == "nadam")
      optimizer = std::make_unique<optim::NAdam>(net, optim::NAdamOptions{.lr = 1e-2});
    else if (setting.rule == "rprop")
      optimizer = std::make_unique<optim::Rprop>(net, optim::RpropOptions{.lr = 1e-3});
    else if (setting.rule == "groups")
      optimizer = std::make_unique<optim::AdamW>(
          net, optim::AdamWOptions{.lr = 1e-2,
                                   .groups = {{.match = "first.*", .lr = 1e-3, .weight_decay = 0, .beta1 = 0.5},
                                              {.match = "*.bias", .schedule = optim::Schedule::linear(0.02, 30)}}});
    else
      optimizer = std::make_unique<optim::AdamW>(net, optim::AdamWOptions{.lr = 1e-2});
    trainer.emplace(runtime, net, *optimizer, setting.options);
  }
  /// Divides the parameters among two optimizers with other rules, rates and averages.
  void make_two(const TrainerOptions& options) {
    std::vector<optim::NamedParameter> inner, outer;
    for (const optim::NamedParameter& p : optim::parameters_of(net))
      (p.name.starts_with("last") ? outer : inner).push_back(p);
    optimizer = std::make_unique<optim::AdamW>(
        inner, optim::AdamWOptions{.lr = 1e-2, .groups = {{.match = "norm.*", .lr_factor = 0.5}}});
    second = std::make_unique<optim::Sgd>(outer, optim::SgdOptions{.lr = 0.05, .momentum = 0.9});
    std::vector<NamedOptimizer> both = {{.name = "inner", .optimizer = *optimizer},
                                        {.name = "outer",
                                         .optimizer = *second,
                                         .schedule = optim::Schedule::cosine(0.05, 30, 0, 3),
                                         .ema = optim::EmaOptions{.decay = 0.8}}};
    trainer.emplace(runtime, net, std::move(both), options);
  }
  /// Runs a step with the loss of loss_with_probes().
  StepResult step_with_probes(const io::ImageBatch& b) {
    return trainer->step(b, [&](const io::ImageBatch& there) { return loss_with_probes(net, there); });
  }
  StepResult step(const io::ImageBatch& b) {
    return trainer->step(b, [&](const io::ImageBatch& there) { return loss_of(net, there); });
  }
  Runtime runtime{{.device = Device::cuda(), .seed = 3}};
  Net net;
  std::unique_ptr<optim::Optimizer> optimizer, second;  // `second` is null except in make_two()
  std::optional<Trainer> trainer;
};

/// Results and final state of a run.
struct Trace {
  std::vector<StepResult> results{};
  std::string hash{};
};

inline Trace trace(const Setting& setting, bool record,
                   const std::function<void(Training&, std::vector<StepResult>&)>& steps) {
  Training run(setting, record);
  Trace trace;
  steps(run, trace.results);
  trace.hash = run.trainer->state_hash();
  return trace;
}

/// Returns the warnings of a step as texts.
inline std::vector<std::string> warnings_of(const StepResult& result) {
  std::vector<std::string> lines;
  for (const Warning& warning : result.warnings)
    lines.push_back(fmt::format("{}: {} {} {} {}", name_of(warning.kind), location_of(warning), warning.what,
                                warning.remedy, warning.confidence));
  return lines;
}

/// Returns true if a and b are equal or both NaN.
inline bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

inline void expect_equal(const Trace& a, const Trace& b) {
  ASSERT_EQ(a.results.size(), b.results.size());
  for (std::size_t i = 0; i < a.results.size(); ++i) {
    const StepResult &x = a.results[i], &y = b.results[i];
    EXPECT_EQ(x.committed, y.committed) << i;
    EXPECT_PRED2(same, x.loss, y.loss) << i;
    EXPECT_PRED2(same, x.grad_norm, y.grad_norm) << i;
    EXPECT_EQ(x.loss_scale, y.loss_scale) << i;
    EXPECT_EQ(x.forward_headroom.binades, y.forward_headroom.binades) << i;
    EXPECT_EQ(x.backward_headroom.binades, y.backward_headroom.binades) << i;
    EXPECT_EQ(x.backward_headroom.op, y.backward_headroom.op) << i;
    EXPECT_EQ(x.incident.has_value(), y.incident.has_value()) << i;
    EXPECT_EQ(x.metric("signs/attention_entropy"), y.metric("signs/attention_entropy")) << i;
    EXPECT_EQ(x.metric("signs/update_rms"), y.metric("signs/update_rms")) << i;
    EXPECT_EQ(warnings_of(x), warnings_of(y)) << i;
  }
  EXPECT_EQ(a.hash, b.hash);
}

}  // namespace binade::amp::recorded_lab
