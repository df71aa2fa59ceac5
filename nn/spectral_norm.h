#pragma once

#include <utility>

#include "binade/nn/weight_norm.h"

namespace binade::nn {

/// Options of SpectralNorm.
struct SpectralNormOptions {
  int iterations = 1;  ///< steps of the power iteration for each step of training
  double eps = 1e-12;  ///< smallest length that a vector is divided by
  int axis = 0;        ///< axis of the weight that has its output channels; negative: counts from the end
};

namespace detail {
/// Weight, estimates of its first singular vectors, and the steps that improve them.
class SpectralWeight {
 public:
  SpectralWeight(const Parameter& weight, const SpectralNormOptions& options);
  void visit(Visitor& visitor);
  /// Returns weight / sigma; first improves the vectors if `improves`.
  Variable normalized(bool improves);

  Parameter original;
  Buffer u, v;

 private:
  Variable matrix() const;
  SpectralNormOptions options_;
};
}  // namespace detail

/// A layer whose weight is divided by an estimate of its largest singular value sigma (Miyato et al., "Spectral
/// normalization for generative adversarial networks", 2018). The weight is read as a matrix W with one row
/// per position of `axis`. sigma = u^T W v, with unit vectors u and v that a power iteration improves in training:
/// v = W^T u / |W^T u|, u = W v / |W v|. As in PyTorch, they begin at random values, improved by 15 iterations, and
/// gradients flow through W in sigma, but not through u and v. Always computed in f32.
///
///   nn::SpectralNorm layer(nn::Conv2d({.in = 3, .out = 8}));
///
/// u and v are the buffers weight_u and weight_v: a step of training that does not commit leaves them unchanged. Unlike
/// in PyTorch, they are improved once per step of a Trainer (of amp::StepTransaction), not in each forward pass, so
/// that all micro-batches, calls and recomputed segments of a step read the same weight. Outside of a step, they are
/// improved in each forward pass in training mode. Evaluation does not change them. Parameters: weight_orig
/// and those of the layer except the weight. A transposed convolution has its output channels on the last axis: {.axis
/// = -1}. A weight of zeros gives NaN.
template <LayerWithWeight M>
class SpectralNorm : public Module {
 public:
  explicit SpectralNorm(M layer, const SpectralNormOptions& o = {})
      : layer_(std::move(layer)), weight_(std::exchange(layer_.weight, Parameter()), o) {}
  void visit(Visitor& v) override {
    weight_.visit(v);
    v("", layer_);
  }
  std::string kind() const override { return "SpectralNorm"; }
  Variable forward(const Variable& x) override { return layer_.with_weight(x, weight_.normalized(training())); }

  Parameter& original() { return weight_.original; }
  /// Returns the layer with the current normalized weight as its own parameter.
  M fold() && {
    const NoGradGuard no_grad;
    layer_.weight = Parameter(weight_.normalized(false).value());
    return std::move(layer_);
  }

 private:
  M layer_;
  detail::SpectralWeight weight_;
};

}  // namespace binade::nn
