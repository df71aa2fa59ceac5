#pragma once

#include <concepts>
#include <utility>

#include "binade/autograd/functions/elementwise.h"
#include "binade/nn/module.h"

namespace binade::nn {

/// A layer that can compute with another weight than its own: Linear and all convolutions.
template <class M>
concept LayerWithWeight = std::derived_from<M, WeightedModule> && requires(M& layer, const Variable& x) {
  { layer.with_weight(x, x) } -> std::same_as<Variable>;
};

/// Options of WeightNorm.
struct WeightNormOptions {
  int axis = 0;  ///< each position of this axis has its own length; negative: counts from the end
};

namespace detail {
/// Returns `axis` of the weight as a number from 0 on. Throws ArgumentError, which names `kind`, if it is out of range
/// or the layer has no weight.
int checked_weight_axis(const char* kind, const Parameter& weight, int axis);
/// Returns the lengths of v's slices along `axis`, as (1, …, extent, …, 1).
Variable slice_lengths(const Variable& v, int axis);
}  // namespace detail

/// A layer whose weight is weight_g weight_v / |weight_v| (Salimans and Kingma, 2016): the length of each slice along
/// `axis`, such as the filter of one output channel, and its direction are trained separately. Names and initial values
/// are those of torch.nn.utils.weight_norm: weight_v is the weight of the layer, weight_g (extent 1 but for `axis`)
/// the lengths of its slices, so that the layer computes what it did before.
///
///   nn::WeightNorm layer(nn::Linear({.in = 8, .out = 4}));
///
/// Parameters: weight_g, weight_v and those of the layer except the weight ("bias"). A transposed convolution has its
/// output channels on the last axis: {.axis = -1}. A slice of length 0 gives NaN.
template <LayerWithWeight M>
class WeightNorm : public Module {
 public:
  explicit WeightNorm(M layer, const WeightNormOptions& o = {})
      : layer_(std::move(layer)), axis_(detail::checked_weight_axis("WeightNorm", layer_.weight, o.axis)) {
    const NoGradGuard no_grad;
    weight_v = std::exchange(layer_.weight, Parameter());
    weight_g = Parameter(detail::slice_lengths(weight_v, axis_).value());
  }
  void visit(Visitor& v) override {
    v("weight_g", weight_g);
    v("weight_v", weight_v);
    v("", layer_);
  }
  std::string kind() const override { return "WeightNorm"; }
  Variable forward(const Variable& x) override { return layer_.with_weight(x, weight()); }

  /// Returns the weight with which the layer computes.
  Variable weight() { return weight_v * (weight_g / detail::slice_lengths(weight_v, axis_)); }
  /// Returns the layer with that weight as its own parameter.
  M fold() && {
    const NoGradGuard no_grad;
    layer_.weight = Parameter(weight().value());
    return std::move(layer_);
  }

  Parameter weight_g, weight_v;

 private:
  M layer_;
  int axis_;
};

}  // namespace binade::nn
