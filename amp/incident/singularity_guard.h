#pragma once

#include <string>

#include "binade/amp/incident/first_bad.h"
#include "binade/autograd/observer.h"

namespace binade::amp {

/// Protects one op call, or all calls of the same op, from its singularities in one run of a step: raises its eps,
/// moves its operands away from stated singularities, unmasks rows in which every entry is masked. If the step becomes
/// finite, the singularity was the cause.
class SingularityGuard final : public TapeObserver {
 public:
  explicit SingularityGuard(const FirstBad& bad, bool everywhere = false)
      : module_(bad.op_path()), op_(bad.info), everywhere_(everywhere) {}

  double eps_of(const OpCall& call, double eps) override;
  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;

 private:
  bool concerns(const OpCall& call) const { return (everywhere_ || call.module_path == module_) && &call.info == op_; }

  std::string module_;
  const OpInfo* op_;
  bool everywhere_;  // true: raises eps in all calls of the op; false: only in module_
};

}  // namespace binade::amp
