#pragma once

#include "binade/autograd/functions/norm.h"
#include "binade/nn/module.h"

namespace binade::nn {

/// Options of GroupNorm.
struct GroupNormOptions {
  std::int64_t groups = 1, channels = 0;
  double eps = 1e-5;
  bool relu = false;  ///< true if a ReLU is applied to the result in the same pass
};

/// Group norm of x (N, …, channels) with weight (initially 1) and bias (0): see ops::GroupNorm.
class GroupNorm : public WeightedModule {
 public:
  explicit GroupNorm(const GroupNormOptions& o) : options_(o) {
    check<ArgumentError>(o.channels > 0 && o.groups > 0 && o.channels % o.groups == 0,
                         "GroupNorm: wanted channels in equal groups, got {} channels and {} groups", o.channels,
                         o.groups);
    check<ArgumentError>(o.eps >= 0, "GroupNorm: wanted eps >= 0, got {}", o.eps);
    weight = Parameter(Tensor::full({o.channels}, 1, DType::f32, Runtime::current_device()));
    bias = Parameter(Tensor::zeros({o.channels}, DType::f32, Runtime::current_device()));
  }
  std::string kind() const override { return "GroupNorm"; }
  Variable forward(const Variable& x) override { return forward(x, Variable()); }
  /// Returns act(norm(x) + residual), computed in one pass, where act is ReLU if options().relu, else the identity.
  Variable operator()(const Variable& x, const Variable& residual) {
    const ModuleScope scope(*this);
    return forward(x, residual);
  }
  using Module::operator();

 private:
  Variable forward(const Variable& x, const Variable& residual) {
    return group_norm(x, options_.groups, weight, bias,
                      {.eps = options_.eps, .relu = options_.relu, .residual = residual});
  }

  GroupNormOptions options_;
};

}  // namespace binade::nn
