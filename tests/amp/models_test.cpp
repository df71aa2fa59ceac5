#include <gtest/gtest.h>

#include "binade/amp/state_hash.h"
#include "binade/amp/step/trainer.h"
#include "binade/amp/verdict.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/pool.h"
#include "binade/autograd/functions/shape.h"
#include "binade/io/checkpoint/file.h"
#include "binade/nn/attention.h"
#include "binade/nn/batch_norm.h"
#include "binade/nn/conv2d.h"
#include "binade/nn/conv_transpose2d.h"
#include "binade/nn/dropout.h"
#include "binade/nn/embedding.h"
#include "binade/nn/layer_norm.h"
#include "binade/nn/losses.h"
#include "binade/nn/mlp.h"
#include "binade/optim/adam.h"
#include "binade/optim/sgd.h"

/// Tests of the promises of a step, on a small transformer and a small U-Net that consist of the library's layers.
namespace binade::amp {
namespace {

/// Two blocks with dropout, and a head that shares its weights with the token table.
struct SmallGpt : nn::Module {
  nn::Embedding tokens{{.count = 17, .dim = 16}}, positions{{.count = 8, .dim = 16}};
  nn::Dropout dropout{{.p = 0.1}};
  struct Block : nn::Module {
    nn::LayerNorm norm1{{.dim = 16}}, norm2{{.dim = 16}};
    nn::MultiHeadAttention attention{{.dim = 16, .heads = 2, .causal = true, .dropout = 0.1}};
    nn::Mlp mlp{{.dim = 16}};
    void visit(nn::Visitor& v) override {
      v("norm1", norm1);
      v("attention", attention);
      v("norm2", norm2);
      v("mlp", mlp);
    }
    Variable forward(const Variable& x) override {
      const Variable h = x + attention(norm1(x));
      return h + mlp(norm2(h));
    }
  } first, second;
  nn::LayerNorm norm{{.dim = 16}};
  nn::Parameter head = tokens.weight;

  void visit(nn::Visitor& v) override {
    v("tokens", tokens);
    v("positions", positions);
    v("dropout", dropout);
    v("first", first);
    v("second", second);
    v("norm", norm);
    v("head.weight", head);
  }
  Variable loss(std::uint32_t k) {
    const nn::ModuleScope scope(*this);
    const RandomStream stream{5, RngPurpose::kData, k};
    std::vector<std::int32_t> ids(4 * 8), targets(4 * 8), places(8);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<std::int32_t>(stream.below(i, 17));
      targets[i] = (3 * ids[i] + 1) % 17;  // a function of the token, which the model can learn
    }
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int32_t>(i);
    const Variable x = tokens(Tensor::from(ids, {4, 8})) + positions(Tensor::from(places, {8}));
    const Variable logits = linear(norm(second(first(dropout(x)))), head);
    return nn::cross_entropy(reshape(logits, {32, 17}), Tensor::from(targets, {32}));
  }
};

/// One level: conv, batch norm, pool, conv, batch norm, up, skip, head.
struct SmallUnet : nn::Module {
  nn::Conv2d down{{.in = 1, .out = 4, .padding = 1, .bias = false}},
      middle{{.in = 4, .out = 8, .padding = 1, .bias = false}};
  nn::BatchNorm2d norm1{{.channels = 4, .relu = true}}, norm2{{.channels = 8, .relu = true}};
  nn::ConvTranspose2d up{{.in = 8, .out = 4, .kernel = 2, .stride = 2}};
  nn::Conv2d head{{.in = 8, .out = 1, .kernel = 1}};

  void visit(nn::Visitor& v) override {
    v("down", down);
    v("norm1", norm1);
    v("middle", middle);
    v("norm2", norm2);
    v("up", up);
    v("head", head);
  }
  Variable loss(std::uint32_t k) {
    const nn::ModuleScope scope(*this);
    const RandomStream stream{6, RngPurpose::kData, k};
    std::vector<float> image(2 * 8 * 8), mask(2 * 8 * 8);
    for (std::size_t i = 0; i < image.size(); ++i) {
      mask[i] = (i / 4 + stream.below(0, 2)) % 2 == 0 ? 1.0f : 0.0f;
      image[i] = mask[i] + 0.3f * stream.uniform(i + 1);
    }
    const Variable skip = norm1(down(Tensor::from(image, {2, 8, 8, 1})));
    const Variable x = up(norm2(middle(max_pool2d(skip, {.kernel = 2, .stride = 2}))));
    return nn::bce_with_logits(head(concat({skip, x})), Tensor::from(mask, {2, 8, 8, 1}));
  }
};

enum class Rule { kSgd, kAdamW };

template <class Model>
struct Training {
  Runtime runtime;
  Model model;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<Trainer> trainer;

  Training(const std::string& precision, Rule rule, int threads = 1, double init_scale = 65536)
      : runtime({.seed = 9, .threads = threads}) {
    if (rule == Rule::kSgd)
      optimizer = std::make_unique<optim::Sgd>(model, optim::SgdOptions{.lr = 0.05, .momentum = 0.9});
    else
      optimizer = std::make_unique<optim::AdamW>(model, optim::AdamWOptions{.lr = 0.01});
    TrainerOptions options{.precision = Policy::by_name(precision), .clip_norm = 1, .state_hash = true};
    if (options.precision.dynamic_loss_scale) options.loss_scale = LossScaleOptions::dynamic(init_scale);
    trainer = std::make_unique<Trainer>(runtime, model, *optimizer, options);
  }
  StepResult step() {
    return trainer->step(static_cast<std::uint32_t>(trainer->steps()), [&](std::uint32_t k) { return model.loss(k); });
  }
  std::string train(std::int64_t until) {
    while (trainer->steps() < until) step();
    return trainer->state_hash();
  }
};

template <class Model>
class SmallModels : public ::testing::Test {};
using Models = ::testing::Types<SmallGpt, SmallUnet>;
TYPED_TEST_SUITE(SmallModels, Models);

TYPED_TEST(SmallModels, ResumeToTheSameBitsInEveryPrecisionWithEveryOptimizer) {
  for (const char* precision : {"fp32", "fp16", "bf16", "pure-bf16"})
    for (const Rule rule : {Rule::kSgd, Rule::kAdamW}) {
      const std::string whole = Training<TypeParam>(precision, rule).train(5);
      StateDict saved;
      {
        Training<TypeParam> run(precision, rule);
        run.train(2);
        saved = run.trainer->state();
      }
      const io::CheckpointImage image = io::encode_checkpoint(saved, state_hash(saved));
      Training<TypeParam> resumed(precision, rule);
      resumed.trainer->load_state(io::decode_checkpoint(image.bytes()).state);
      EXPECT_EQ(resumed.train(5), whole) << precision;
    }
}

TYPED_TEST(SmallModels, ThreadsDoNotShowInTheBits) {
  for (const char* precision : {"fp32", "fp16", "bf16"}) {
    const std::string one = Training<TypeParam>(precision, Rule::kAdamW, 1).train(2);
    for (const int threads : {2, 3, 4, 8})
      EXPECT_EQ(Training<TypeParam>(precision, Rule::kAdamW, threads).train(2), one) << precision << " " << threads;
  }
}

TYPED_TEST(SmallModels, AHugeInitialScaleAbortsThenTrainsAndHurtsNothing) {
  Training<TypeParam> run("fp16", Rule::kAdamW, 1, 0x1p32);
  const double first = run.step().loss;
  run.train(40);
  std::int64_t aborted = 0;
  double last = 0;
  for (const StepResult& r : run.trainer->finished()) {
    if (r.committed) last = r.loss;
    if (r.committed) continue;
    ++aborted;
    EXPECT_EQ(r.state_hash_before, r.state_hash_after);
    EXPECT_FALSE(r.incident.has_value());
  }
  EXPECT_GT(aborted, 0);
  EXPECT_LT(aborted, 32);
  EXPECT_LT(last, 0.9 * first);
  for (const auto& [name, buffer] : nn::named_buffers(run.model)) EXPECT_TRUE(all_finite(buffer->committed())) << name;
}

TYPED_TEST(SmallModels, LearnAlikeInEveryPrecision) {
  double reference = 0;
  for (const char* precision : {"fp32", "fp16", "bf16", "pure-fp16", "pure-bf16"}) {
    Training<TypeParam> run(precision, Rule::kAdamW);
    const double first = run.step().loss;
    double last = 0;
    while (run.trainer->steps() < 60) last = run.step().loss;
    EXPECT_LT(last, 0.85 * first) << precision;
    if (reference == 0) reference = last;
    // With the same seed and data, precisions differ by rounding only, so they must reach similar losses.
    EXPECT_NEAR(last, reference, 0.15 * first) << precision;
  }
}

}  // namespace
}  // namespace binade::amp
