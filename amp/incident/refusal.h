#pragma once

#include "binade/amp/incident/incident.h"
#include "binade/autograd/observer.h"

namespace binade::amp {

/// Observes a run that ends with a DataError, and finds the op that threw it: the last one that began. A GPU reports
/// bad data at the next synchronization, so the search synchronizes after each op.
class RefusalSearch final : public TapeObserver {
 public:
  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;
  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                     const Observation& seen) override;

  /// Returns the op, with the direction "input". Its names are empty if no op began.
  const FirstBad& found() const { return found_; }

 private:
  FirstBad found_{.direction = "input", .tensor = "input", .value = "out of range"};
};

}  // namespace binade::amp
