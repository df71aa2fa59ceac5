#include "examples/unet/unet.h"

#include <cmath>
#include <numeric>

namespace binade::examples {

namespace {

/// Draws the head's weights: He-normal minus their mean over the inputs. The inputs come from a batch norm and a ReLU,
/// so that they are positive with similar means; weights with a nonzero sum would shift all logits by a random amount.
void draw_head(nn::Parameter& weight) {
  nn::init::kaiming_normal(weight);
  Tensor values = weight.value().on_host().clone();
  const std::int64_t inputs = values.shape().cols();
  float* row = values.mutable_data<float>();
  for (std::int64_t k = 0; k < values.numel() / inputs; ++k, row += inputs) {
    const float mean = std::accumulate(row, row + inputs, 0.0f) / static_cast<float>(inputs);
    for (std::int64_t c = 0; c < inputs; ++c) row[c] -= mean;
  }
  weight.mutable_value().copy_from(values.to(weight.device()));
}

}  // namespace

DoubleConv::DoubleConv(std::int64_t in, std::int64_t out)
    : conv1({.in = in, .out = out, .kernel = 3, .padding = 1, .bias = false}),
      conv2({.in = out, .out = out, .kernel = 3, .padding = 1, .bias = false}),
      norm1({.channels = out, .relu = true}),
      norm2({.channels = out, .relu = true}) {
  for (nn::Conv2d* conv : {&conv1, &conv2}) nn::init::kaiming_normal(conv->weight);
}

void DoubleConv::visit(nn::Visitor& v) {
  v("conv1", conv1);
  v("norm1", norm1);
  v("conv2", conv2);
  v("norm2", norm2);
}

Variable DoubleConv::operator()(const Variable& x, const ops::OutputView& into) {
  const nn::ModuleScope scope(*this);
  return forward(x, into);
}

Variable DoubleConv::forward(const Variable& x, const ops::OutputView& into) {
  return norm2(conv2(norm1(conv1(x))), Variable(), into);
}

UpBlock::UpBlock(std::int64_t in, std::int64_t out)
    : up({.in = in, .out = out, .kernel = 2, .stride = 2}), body(2 * out, out) {
  nn::init::normal(up.weight, std::sqrt(2.0 / static_cast<double>(in)));
  nn::init::zeros(up.bias);
}

void UpBlock::visit(nn::Visitor& v) {
  v("up", up);
  body.visit(v);  // conv1, norm1, conv2 and norm2 get paths beside `up`
}

Variable UpBlock::operator()(const Variable& x, const Variable& skip, const std::shared_ptr<ops::ConcatBuffer>& buffer,
                             bool recomputed) {
  const nn::ModuleScope scope(*this);
  const Variable both = concat({skip, up(x, {buffer, skip.dim(3)})});
  return recomputed ? recompute([this](const Variable& in) { return body.forward(in); }, both) : body.forward(both);
}

UNet::UNet(const UNetOptions& o)
    : options_(o),
      middle_(o.base << (o.depth - 1), o.base << o.depth),
      head_({.in = o.base, .out = o.classes, .kernel = 1}) {
  check<ArgumentError>(o.depth >= 1 && o.depth <= 8 && o.base >= 1,
                       "unet: wanted --depth 1 to 8 and --base >= 1, got {} and {}", o.depth, o.base);
  for (std::int64_t level = 0; level < o.depth; ++level) {
    const std::int64_t width = o.base << level;
    encoder_.emplace_back(level == 0 ? o.in : width / 2, width);
    decoder_.emplace_back(2 * width, width);
  }
  draw_head(head_.weight);
  nn::init::zeros(head_.bias);
}

void UNet::start_at(std::span<const double> logits) {
  check<ShapeError>(std::ssize(logits) == options_.classes, "unet: wanted {} first logits, got {}", options_.classes,
                    logits.size());
  const std::vector<float> values(logits.begin(), logits.end());
  head_.bias.mutable_value().copy_from(Tensor::from(values, {options_.classes}).to(head_.bias.device()));
}

void UNet::visit(nn::Visitor& v) {
  encoder_.visit("encoder", v);
  v("middle", middle_);
  decoder_.visit("decoder", v);
  v("head", head_);
}

Variable UNet::forward(const Variable& images) {
  check<ShapeError>(images.value().rank() == 4 && images.dim(1) % multiple() == 0 && images.dim(2) % multiple() == 0,
                    "unet: wanted images (N, H, W, C) with H and W multiples of {}, got {}; pad them", multiple(),
                    images.shape().to_string());
  const auto run = [this](DoubleConv& level, const Variable& in, const ops::OutputView& into) {
    return options_.recompute ? recompute([&level, into](const Variable& x) { return level(x, into); }, in)
                              : level(in, into);
  };
  std::vector<std::shared_ptr<ops::ConcatBuffer>> buffers;  // one per level, for the skip and the upsampled tensor
  std::vector<Variable> skips;
  Variable x = images;
  for (DoubleConv& level : encoder_) {
    buffers.push_back(std::make_shared<ops::ConcatBuffer>(2 * (options_.base << buffers.size())));
    skips.push_back(run(level, x, {buffers.back(), 0}));
    x = max_pool2d(skips.back(), {.kernel = 2});
  }
  x = run(middle_, x, {});
  for (std::size_t level = decoder_.size(); level-- > 0;)
    x = decoder_[level](x, skips[level], buffers[level], options_.recompute);
  return head_(x);
}

}  // namespace binade::examples
