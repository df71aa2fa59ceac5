#pragma once

#include "binade/nn/module.h"

namespace binade::nn {

struct GroupNormOptions {
  std::int64_t groups = 1, channels = 0;
  double eps = 1e-5;
  bool relu = false;  ///< a ReLU in the same pass
};

/// Group norm of x (N, …, channels), with weight (1 at first) and bias (0): see ops::GroupNorm.
class GroupNorm : public Module {
 public:
  explicit GroupNorm(const GroupNormOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "GroupNorm"; }
  Variable forward(const Variable& x) override { return forward(x, Variable()); }
  /// act(norm(x) + residual) in one pass.
  Variable operator()(const Variable& x, const Variable& residual);
  using Module::operator();

  Parameter weight, bias;

 private:
  Variable forward(const Variable& x, const Variable& residual);

  GroupNormOptions options_;
};

}  // namespace binade::nn
