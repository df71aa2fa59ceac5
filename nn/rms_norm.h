#pragma once

#include "binade/autograd/functions/norm.h"
#include "binade/nn/module.h"

namespace binade::nn {

struct RmsNormOptions {
  std::int64_t dim = 0;
  double eps = 1e-6;
};

/// RMS norm over the last dimension, (…, dim), with weight (1 at first): see ops::RmsNorm.
class RmsNorm : public Module {
 public:
  explicit RmsNorm(const RmsNormOptions& options);
  void visit(Visitor& v) override { v("weight", weight); }
  std::string kind() const override { return "RmsNorm"; }
  Variable forward(const Variable& x) override;

  using Module::operator();
  /// h = x + residual, y = norm(h), in one pass.
  AddNormResult operator()(const Variable& x, const Variable& residual);

  Parameter weight;

 private:
  RmsNormOptions options_;
};

}  // namespace binade::nn
