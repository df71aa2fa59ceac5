#include <gtest/gtest.h>

#include <algorithm>

#include "binade/core/backend.h"
#include "binade/core/gpus.h"
#include "binade/core/memory_plan.h"
#include "examples/unet/unet.h"
#include "tests/tested_device.h"

// The example U-Net writes its skip connections directly into the concatenated tensor. It gives the same bits as a
// U-Net that copies them.
namespace binade::examples {
namespace {

/// Returns the same values, and makes the gradient a separate dense tensor.
Variable dense(const Variable& x) { return reshape(x, {x.dim(0), x.dim(1), x.dim(2), x.dim(3)}); }

/// The U-Net of the example with concatenations that copy, forward and backward.
class CopyingUNet : public nn::Module {
 public:
  explicit CopyingUNet(const UNetOptions& o)
      : recompute_(o.recompute),
        middle_(o.base << (o.depth - 1), o.base << o.depth),
        head_({.in = o.base, .out = o.classes, .kernel = 1}) {
    for (std::int64_t level = 0; level < o.depth; ++level) {
      const std::int64_t width = o.base << level;
      encoder_.emplace_back(level == 0 ? o.in : width / 2, width);
      decoder_.emplace_back(2 * width, width);
    }
  }
  void visit(nn::Visitor& v) override {
    encoder_.visit("encoder", v);
    v("middle", middle_);
    decoder_.visit("decoder", v);
    v("head", head_);
  }
  std::string kind() const override { return "UNet"; }
  Variable forward(const Variable& images) override {
    const auto run = [this](DoubleConv& level, const Variable& in) {
      return recompute_ ? recompute([&level](const Variable& x) { return level(x); }, in) : level(in);
    };
    std::vector<Variable> skips;
    Variable x = images;
    for (DoubleConv& level : encoder_) {
      skips.push_back(run(level, x));
      x = max_pool2d(skips.back(), {.kernel = 2});
    }
    x = run(middle_, x);
    for (std::size_t i = decoder_.size(); i-- > 0;) {
      UpBlock& level = decoder_[i];
      x = run(level.body, concat({dense(skips[i]), dense(level.up(x))}));
    }
    return head_(x);
  }

 private:
  bool recompute_;
  nn::ModuleList<DoubleConv> encoder_;
  DoubleConv middle_;
  nn::ModuleList<UpBlock> decoder_;
  nn::Conv2d head_;
};

Tensor pixels(const Shape& shape, std::uint32_t which, bool mask) {
  const RandomStream numbers{6, RngPurpose::kData, 0, 0, which};
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = mask ? static_cast<float>(numbers.uniform(i) > 0.5) : static_cast<float>(numbers.normal(i));
  return Tensor::from(values, shape).to(tested_device());
}

std::vector<float> bits_of(const Tensor& t) { return t.to_vector<float>(); }

struct Kind {
  const char* name;
  amp::Policy policy;
  UNetOptions model;
  Shape images;  ///< (N, H, W, 1)
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class UNetSkips : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (tested_device() != Device::cpu() && gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  }
};

TEST_P(UNetSkips, HaveTheBitsOfCopiesForwardAndBackward) {
  const Runtime runtime({.device = tested_device(), .seed = 4});
  UNet in_place(GetParam().model);
  CopyingUNet copying(GetParam().model);
  nn::load_state_dict(copying, nn::state_dict(in_place));
  const Tensor x = pixels(GetParam().images, 0, false), y = pixels(GetParam().images, 1, true);
  std::vector<std::vector<float>> logits, evaluated, gradients[2];
  for (nn::Module* model : {static_cast<nn::Module*>(&in_place), static_cast<nn::Module*>(&copying)}) {
    const PolicyScope scope(GetParam().policy);
    {
      const Variable z = (*model)(x);
      logits.push_back(bits_of(z.value()));
      backward(bce_with_logits(z, y));
      backward(bce_with_logits((*model)(x), y), 0.5);  // a second micro-batch
    }
    for (const auto& [path, parameter] : nn::named_parameters(*model))
      gradients[evaluated.size()].push_back(bits_of(parameter->grad()));
    model->eval();
    const NoGradGuard no_grad;
    evaluated.push_back(bits_of((*model)(x).value()));
  }
  EXPECT_EQ(logits[0], logits[1]);
  EXPECT_EQ(evaluated[0], evaluated[1]);
  EXPECT_EQ(gradients[0], gradients[1]);
}

TEST_P(UNetSkips, HaveTheBitsOfCopiesOverSteps) {
  std::vector<double> losses[2];
  std::vector<std::string> hashes;
  for (const bool copies : {false, true}) {
    Runtime runtime({.device = tested_device(), .seed = 4});
    UNet in_place(GetParam().model);
    CopyingUNet copying(GetParam().model);
    nn::load_state_dict(copying, nn::state_dict(in_place));
    nn::Module& model = copies ? static_cast<nn::Module&>(copying) : in_place;
    optim::Adam optimizer(model, {.lr = 1e-3});
    amp::Trainer trainer(runtime, model, optimizer, {.precision = GetParam().policy, .clip_norm = 1});
    for (std::uint32_t step = 0; step < 4; ++step)
      losses[copies].push_back(trainer
                                   .step(step,
                                         [&](std::uint32_t at) {
                                           return bce_with_logits(model(pixels(GetParam().images, 2 * at, false)),
                                                                  pixels(GetParam().images, 2 * at + 1, true));
                                         })
                                   .loss);
    hashes.push_back(trainer.state_hash());
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(hashes[0], hashes[1]);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, UNetSkips,
    testing::Values(
        Kind{"fp32", amp::Policy::fp32(), {.base = 8, .depth = 2}, {2, 8, 8, 1}},
        Kind{"fp16", amp::Policy::fp16(), {.base = 8, .depth = 2}, {2, 8, 8, 1}},
        Kind{"bf16", amp::Policy::bf16(), {.base = 8, .depth = 2}, {2, 8, 8, 1}},
        Kind{"one_odd_image", amp::Policy::fp32(), {.base = 8, .depth = 2}, {1, 12, 20, 1}},
        Kind{"three_odd_images_bf16", amp::Policy::bf16(), {.base = 16, .depth = 1}, {3, 10, 6, 1}},
        Kind{"recomputed", amp::Policy::fp32(), {.base = 8, .depth = 2, .recompute = true}, {2, 8, 8, 1}},
        Kind{"recomputed_bf16", amp::Policy::bf16(), {.base = 8, .depth = 2, .recompute = true}, {1, 12, 8, 1}},
        Kind{"narrow", amp::Policy::fp32(), {.base = 6, .depth = 1}, {2, 4, 4, 1}},
        Kind{"narrow_bf16", amp::Policy::bf16(), {.base = 4, .depth = 1}, {2, 4, 4, 1}}),
    [](const auto& of) { return std::string(of.param.name); });

/// Number of blocks for `elements` f32 values that a step allocates.
std::int64_t blocks_of(nn::Module& model, const Tensor& x, const Tensor& y, std::int64_t elements) {
  const auto step = [&] { backward(bce_with_logits(model(x), y)); };
  step();
  const MemoryTrace trace = backend_of(Device::cpu()).trace(step);
  const auto bytes = static_cast<std::size_t>(elements) * sizeof(float);
  return std::ranges::count_if(trace.blocks, [bytes](const MemoryTrace::Block& b) {
    return b.bytes >= bytes && b.bytes < bytes + bytes / 16;
  });
}

TEST(UNetSkipsMemory, TakeNoTensorsForCopies) {
  if (tested_device() != Device::cpu()) GTEST_SKIP() << "counts the blocks of the CPU's allocator: runs there";
  const Runtime runtime({.seed = 4});
  const UNetOptions options{.base = 8, .depth = 1};
  UNet in_place(options);
  CopyingUNet copying(options);
  const Shape images{2, 32, 32, 1};
  const Tensor x = pixels(images, 0, false), y = pixels(images, 1, true);
  const std::int64_t half = images.numel() * options.base;
  // Seven blocks are as wide as a skip connection: the results of four convolutions and three norms, over which their
  // gradients are written. Skip connection and upsampled tensor are halves of one tensor of twice this width, as are
  // their gradients. Copying takes four more blocks.
  EXPECT_EQ(blocks_of(in_place, x, y, half), 7);
  EXPECT_EQ(blocks_of(in_place, x, y, 2 * half), 1);
  EXPECT_EQ(blocks_of(copying, x, y, half), 7 + 4);
  EXPECT_EQ(blocks_of(copying, x, y, 2 * half), 1);
}

}  // namespace
}  // namespace binade::examples
