#pragma once

#include <string>

#include "binade/amp/incident/first_bad.h"
#include "binade/autograd/observer.h"

namespace binade::amp {

/// Raises the guards of one op, or of all ops of its kind, in one run of a step: its eps, the distance of its operand
/// from the pole of its contract, a row of a softmax in which everything is masked. A step that becomes finite had its
/// pole there.
class PoleGuard final : public TapeObserver {
 public:
  explicit PoleGuard(const FirstBad& bad, bool everywhere = false)
      : module_(bad.op_path()), op_(bad.op), everywhere_(everywhere) {}

  double eps_of(const OpCall& call, double eps) override;
  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;

 private:
  bool concerns(const OpCall& call) const {
    return (everywhere_ || call.module_path == module_) && call.info.name == op_;
  }

  std::string module_, op_;
  bool everywhere_;
};

}  // namespace binade::amp
