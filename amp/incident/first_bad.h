#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "binade/amp/incident/incident.h"
#include "binade/amp/incident/op_probe.h"
#include "binade/autograd/observer.h"
#include "binade/core/tensor.h"

namespace binade::amp {

/// The non-finite elements of a tensor.
struct NonFiniteScan {
  bool nan = false, positive = false, negative = false;  ///< true if there is a NaN, an inf, a -inf
  std::int64_t position = -1;  ///< row-major position of the first infinity, or else of the first NaN; -1: none
  std::vector<std::vector<std::int64_t>>
      indices{};  ///< per dimension: the indices at which an element is not finite, ascending

  bool finite() const { return position < 0; }
  bool only_negative() const { return negative && !nan && !positive; }  ///< true for a mask
};
NonFiniteScan scan_non_finite(const Tensor& tensor);

/// Sets value and index of `bad` to those of the element at row-major `position`.
void describe_element(FirstBad& bad, const Tensor& tensor, std::int64_t position);

/// Observes one run of a step and finds the first bad op, whose operands are finite and whose result is not.
///
/// An operand that no op computed is a weight (direction "state") or part of the batch ("input"). A -inf is legal in a
/// tensor without NaN or inf, as in a mask. The search ignores such a -inf until an op that does not take masks
/// (OpInfo::numerics) turns it into another non-finite value. Then the result of the search is the origin of the -inf:
/// the op that computed it; or the batch, if a product, a norm or a loss read it; or otherwise the op that turned it
/// into another value. If one op reads parameters of several submodules of its caller (the projections of an
/// attention), the result names the submodule whose channel, weight or gradient is bad.
class FirstBadSearch final : public TapeObserver {
 public:
  /// `batch`: number of rows of a micro-batch; 0: that of the first operand of rank >= 2 that is no weight. Row r of
  /// micro-batch m is sample m * `stride` + r; a stride of 0 stands for the number of rows of a micro-batch.
  explicit FirstBadSearch(std::int64_t batch, std::int64_t stride = 0) : batch_(batch), stride_(stride) {}

  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;
  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                     const Observation& seen) override;
  bool separates_gradients() const override {
    return true;
  }  // a sum of gradients would not show which op made it non-finite
  void after_backward(const OpCall& call, std::span<const Tensor> gy, std::span<const Tensor> gx,
                      const Observation& seen) override;

  /// Returns the first bad op of the run that was observed.
  std::optional<FirstBad> found() const;
  /// If found() blames a mask of the batch: returns the op that turned its -inf into another value.
  std::optional<FirstBad> reader_of_mask() const;
  /// Returns the call of the first bad op, if its forward is the cause.
  const RecordedCall& call() const { return found_ ? found_call_ : negative_call_; }
  /// Returns module path and name of the first op that read `parameter`; if no op did, the parameter's module and an
  /// empty name.
  std::pair<std::string, std::string> reader_of(const std::string& parameter) const;

 private:
  /// Describes an op call whose result or gradient `tensor` is not finite.
  FirstBad describe(const OpCall& call, const Tensor& tensor, const NonFiniteScan& scan,
                    std::span<const Tensor> operands) const;
  FirstBad from_batch(const OpCall& call, const Tensor& tensor, const NonFiniteScan& scan) const;
  FirstBad from_weight(const OpCall& call, const Tensor& tensor, const NonFiniteScan& scan,
                       const std::string& name) const;
  std::vector<std::vector<std::int64_t>> possible_samples_of(const Tensor& tensor, const NonFiniteScan& scan) const;
  /// Records which ops read the operands, and whether the op reads weights or only the batch.
  void note_operands(const OpCall& call, std::span<const Variable> inputs, const Tensors& read);

  /// A submodule whose parameters an op of the calling module reads. The op's result has the channels of all such
  /// submodules side by side. A submodule has as many channels as its first parameter has rows; `end` is the index
  /// after its last channel.
  struct Part {
    std::string module{};
    std::int64_t end = 0;
  };
  /// Fills parts_ for an op that reads parameters of several submodules.
  void note_parts(const OpCall& call, std::span<const Variable> inputs);
  /// Returns the submodule that owns input `i`; null if the input is no parameter of a submodule.
  const Part* part_of_input(std::int64_t tape_index, std::size_t i) const;
  /// Returns the submodule that owns a channel; null if the submodules do not have `channels` channels together.
  const Part* part_of_channel(std::int64_t tape_index, std::int64_t channel, std::int64_t channels) const;
  /// Names the submodule `part` as the module of `bad`, and the former module as its caller.
  static void name_part(FirstBad& bad, const Part* part);
  bool leads_to_weight(std::int64_t tape_index) const;

  std::int64_t batch_, stride_;
  // The next six members describe the ops of this micro-batch, by tape index.
  std::map<std::int64_t, std::vector<std::int64_t>> users_;  // ops that read an op's results
  std::set<std::int64_t> weight_readers_;
  std::map<std::int64_t, std::vector<Part>>
      parts_;  // one Part per input, for ops that read parameters of several submodules
  std::set<std::int64_t> attention_scores_;
  std::set<std::int64_t> at_singularity_;
  std::map<std::int64_t, CallStack> call_stacks_;
  // The members below are for the whole run of the step.
  std::map<std::string, std::pair<std::string, std::string>> readers_;  // module and op that read a weight
  std::int64_t micro_batch_ = -1;
  bool reads_batch_ = false;  // true if the running op reads only the batch
  FirstBad with_facts(FirstBad bad) const;

  std::optional<FirstBad> found_;     // the first bad op; if it is empty, found() returns negative_
  std::optional<FirstBad> reader_;    // the op that read mask_, if found_ is mask_
  std::optional<FirstBad> negative_;  // the first -inf that an op computed from finite operands
  std::optional<FirstBad> mask_;      // the first -inf of the batch
  RecordedCall found_call_, negative_call_;
};

}  // namespace binade::amp
