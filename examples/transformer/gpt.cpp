#include "examples/transformer/gpt.h"

#include <cmath>
#include <numeric>

namespace binade::examples {

GptBlock::GptBlock(const GptOptions& o)
    : norm1({.dim = o.dim}),
      norm2({.dim = o.dim}),
      attention({.dim = o.dim,
                 .heads = o.heads,
                 .causal = true,
                 .dropout = o.dropout,
                 .bias = o.bias,
                 .composed = o.composed}),
      mlp({.dim = o.dim,
           .hidden = 4 * o.dim,
           .activation = o.tanh_gelu ? Activation::kGeluTanh : Activation::kGelu,
           .bias = o.bias,
           .dropout = o.dropout}) {}

void GptBlock::visit(nn::Visitor& v) {
  v("norm1", norm1);
  v("attention", attention);
  v("norm2", norm2);
  v("mlp", mlp);
}

Variable GptBlock::forward(const Variable& x) {
  const auto [h, y] = norm2(attention(norm1(x)), x);
  return h + mlp(y);
}

Variable GptBlock::forward(const Variable& x, nn::AttentionCache& cache) {
  const nn::ModuleScope scope(*this);
  const auto [h, y] = norm2(attention(norm1(x), cache), x);
  return h + mlp(y);
}

Gpt::Gpt(const GptOptions& o)
    : options_(o),
      tokens_({.count = o.table, .dim = o.dim}),
      positions_({.count = o.context, .dim = o.dim}),
      dropout_({.p = o.dropout}),
      norm_({.dim = o.dim}) {
  check<ArgumentError>(o.heads > 0 && o.dim % o.heads == 0, "gpt: wanted --dim divisible by --heads, got {} and {}",
                       o.dim, o.heads);
  blocks_.reserve(static_cast<std::size_t>(o.layers));
  for (std::int64_t i = 0; i < o.layers; ++i) blocks_.emplace_back(o);

  const double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(o.layers));
  for (auto& [name, parameter] : nn::named_parameters(*this)) {
    if (parameter->shape().rank() < 2) {
      if (name.ends_with("bias")) nn::init::zeros(*parameter);
    } else {
      const bool into_residual = name.ends_with("attention.out.weight") || name.ends_with("mlp.down.weight");
      nn::init::normal(*parameter, into_residual ? residual : 0.02);
    }
  }
}

void Gpt::visit(nn::Visitor& v) {
  v("tokens", tokens_);
  v("positions", positions_);
  v("dropout", dropout_);
  blocks_.visit("blocks", v);
  v("norm", norm_);
}

Variable Gpt::embed(const Tensor& tokens, std::int64_t first) {
  check<ShapeError>(tokens.rank() == 2, "gpt: wanted tokens (B, T), got {}", tokens.shape().to_string());
  const std::int64_t length = tokens.dim(1);
  check<ArgumentError>(first + length <= options_.context,
                       "gpt: {} tokens are more than the context of {}; cut the text, or train with a larger --context",
                       first + length, options_.context);
  return dropout_(tokens_(tokens) + positions_(position_ids(first, length, tokens.device())));
}

Tensor Gpt::position_ids(std::int64_t first, std::int64_t length, Device device) {
  const auto all = [&] {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(options_.context));
    std::iota(ids.begin(), ids.end(), 0);
    return Tensor::from(ids, {options_.context}).to(device);
  };
  return position_ids_.get({options_.context}, DType::i32, device, all).narrow(first, length);
}

Variable Gpt::logits(const Variable& x) {
  const Variable h = norm_(x);
  const ModulePathScope head("head");
  return linear(h, tokens_.weight, {});
}

Variable Gpt::operator()(const Tensor& tokens) {
  const nn::ModuleScope scope(*this);
  Variable x = embed(tokens, 0);
  for (GptBlock& block : blocks_)
    x = options_.recompute ? recompute([&block](const Variable& in) { return block(in); }, x) : block(x);
  return logits(x);
}

Variable Gpt::next(const Tensor& tokens, Cache& cache) {
  const nn::ModuleScope scope(*this);
  cache.blocks.resize(blocks_.size());
  Variable x = embed(tokens, cache.length);
  for (std::size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i].forward(x, cache.blocks[i]);
  cache.length += tokens.dim(1);
  return logits(x);
}

}  // namespace binade::examples
