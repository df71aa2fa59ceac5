#pragma once

#include "binade/autograd/functions/norm.h"
#include "binade/nn/module.h"

namespace binade::nn {

/// Options of RmsNorm.
struct RmsNormOptions {
  std::int64_t dim = 0;  ///< extent of the last dimension
  double eps = 1e-6;
};

/// RMS norm over the last dimension of (…, dim), with weight (initially 1): see ops::RmsNorm.
class RmsNorm : public WeightedModule {
 public:
  explicit RmsNorm(const RmsNormOptions& o) : options_(o) {
    check<ArgumentError>(o.dim > 0 && o.eps >= 0, "RmsNorm: wanted dim > 0 and eps >= 0, got {} and {}", o.dim, o.eps);
    weight = Parameter(Tensor::full({o.dim}, 1, DType::f32, Runtime::current_device()));
  }
  std::string kind() const override { return "RmsNorm"; }
  Variable forward(const Variable& x) override { return rms_norm(x, weight, options_.eps); }

  using Module::operator();
  /// Returns h = x + residual and y = norm(h), computed in one pass.
  AddNormResult operator()(const Variable& x, const Variable& residual) {
    const ModuleScope scope(*this);
    return add_rms_norm(x, residual, weight, options_.eps);
  }

 private:
  RmsNormOptions options_;
};

}  // namespace binade::nn
