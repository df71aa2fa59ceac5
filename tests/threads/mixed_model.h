#pragma once

#include <cstring>
#include <string>

#include "binade.h"

namespace binade::test {

/// A small model with every kind of layer that creates something on first use: 16-bit copies of weights (single and in
/// an optimizer's buffer), module paths, causal masks, 8-bit scales, projections of three weights in one op.
struct MixedModel : nn::Module {
  nn::Conv2d conv{{.in = 3, .out = 8, .kernel = 3, .padding = 1}};
  nn::BatchNorm2d norm{{.channels = 8, .relu = true}};
  nn::MultiHeadAttention fused{{.dim = 8, .heads = 2}};
  nn::MultiHeadAttention composed{{.dim = 8, .heads = 2, .causal = true, .composed = true}};
  nn::LayerNorm rows{{.dim = 8}};
  nn::Mlp mlp{{.dim = 8, .hidden = 16}};
  nn::Linear head{{.in = 8, .out = 8}};

  void visit(nn::Visitor& v) override {
    v("conv", conv);
    v("norm", norm);
    v("fused", fused);
    v("composed", composed);
    v("rows", rows);
    v("mlp", mlp);
    v("head", head);
  }
  std::string kind() const override { return "MixedModel"; }
  /// x (N, H, W, 3) -> (N, H W, 8)
  Variable forward(const Variable& x) override {
    const Variable image = norm(conv(x));
    Variable h = reshape(image, {x.dim(0), x.dim(1) * x.dim(2), 8});
    h = h + fused(rows(h));
    h = h + composed(h);
    return head(h + mlp(h));
  }
};

/// Returns an image batch of 1 x `height` x 2 whose values depend on `seed`.
inline Tensor image(int seed, std::int64_t height) {
  Tensor x = Tensor::empty({1, height, 2, 3});
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.mutable_data<float>()[i] = static_cast<float>((i * 37 + seed * 101) % 64) / 32 - 1;
  return x;
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

}  // namespace binade::test
