#pragma once

#include "binade/amp/incident/incident.h"
#include "binade/autograd/observer.h"

namespace binade::amp {

/// Observes a run that ends with a DataError, and finds the op that threw it: the one that began and did not end. A GPU
/// reports bad data at the next synchronization, so the search synchronizes after each op.
class RefusalSearch final : public TapeObserver {
 public:
  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;
  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                     const Observation& seen) override;

  /// Returns the op, with the direction "input", and what it said: `error`, without its own name and its advice. The
  /// op's names are empty if the closure or a function threw the error outside of an op.
  FirstBad found(const std::string& error) const;

 private:
  FirstBad found_{.direction = "input", .tensor = "input", .value = "refused"};
};

}  // namespace binade::amp
