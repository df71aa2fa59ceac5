#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/amp/incident/incident.h"
#include "binade/autograd/observer.h"
#include "binade/core/gpus.h"

namespace binade::amp {

/// Observes one op in one run of a step, forward and backward, and notes if its results are finite. With `own_kernels`,
/// Binade's own kernels compute the op, and the keys of the library plans that would have been used are recorded.
class EngineProbe final : public TapeObserver {
 public:
  EngineProbe(const FirstBad& bad, bool own_kernels)
      : micro_batch_(bad.micro_batch), tape_index_(bad.tape_index), own_kernels_(own_kernels) {}

  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;
  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                     const Observation& seen) override;
  bool separates_gradients() const override { return true; }
  void before_backward(const OpCall& call, Tensors& gy) override;
  void after_backward(const OpCall& call, std::span<const Tensor> gy, std::span<const Tensor> gx,
                      const Observation& seen) override;

  /// True if the op ran in this direction ("forward", "backward"), and its results were finite.
  bool is_finite(std::string_view direction) const;
  /// Returns the recorded keys of this direction, then those of the other direction.
  std::vector<std::string> keys(std::string_view direction) const;

 private:
  struct Pass {
    bool has_run = false, is_finite = true;
    std::vector<std::string> keys{};
  };
  bool concerns(const OpCall& call) const;
  void begin(const OpCall& call);
  void end(Pass& pass, const OpCall& call, std::span<const Tensor> results);

  std::int64_t micro_batch_, tape_index_;
  bool own_kernels_;
  std::optional<gpus::OwnKernels> own_;  // set while the op runs
  Pass forward_, backward_;
};

/// Returns the library and the plans of these keys, for a report.
LibraryFault library_fault(std::vector<std::string> keys);

}  // namespace binade::amp
