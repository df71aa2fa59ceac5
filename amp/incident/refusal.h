#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>

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

  /// Returns the op with its message: `error` without the op's name, divided into refusal and advice. The direction is
  /// "input" if the op read a tensor that is neither a weight nor the result of an op, otherwise "forward". The op's
  /// names are empty if the closure or a function threw the error outside of an op.
  FirstBad found(const std::string& error) const;
  /// True if the op that threw read only weights and results computed from weights alone: no sample is to blame.
  bool reads_weights_only() const { return weights_only_; }

 private:
  bool computed_from_weights(const Variable& x) const;

  bool weights_only_ = false;
  std::int64_t micro_batch_ = -1;
  std::set<std::int64_t> from_weights_;  // tape indices of the ops of this micro-batch whose operands are weights only
  FirstBad found_{.direction = "input", .tensor = "input", .value = "refused"};
};

}  // namespace binade::amp
