#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "binade/amp/incident/incident.h"
#include "binade/autograd/observer.h"
#include "binade/core/tensor.h"

namespace binade::amp {

/// What is not finite in a tensor.
struct NonFiniteScan {
  bool nan = false, positive = false, negative = false;  ///< a NaN, an inf, a -inf somewhere
  std::int64_t position = -1;  ///< of the first infinity, or of the first NaN where there is none; -1: all are finite
  std::vector<std::int64_t> rows{};  ///< along dimension 0, those that hold something, ascending

  bool finite() const { return position < 0; }
  bool only_negative() const { return negative && !nan && !positive; }  ///< as a mask is
};
NonFiniteScan scan_non_finite(const Tensor& tensor);

/// Sets value and index to those of the element at row-major `position`.
void describe_element(FirstBad& bad, const Tensor& tensor, std::int64_t position);

/// Watches one run of a step and finds its first bad op.
///
/// An op is to blame when its operands are finite and its result is not. An operand that nothing on the tape made is a
/// weight (direction "state") or comes from the batch ("input"). A -inf is legal where nothing but -inf is there, as in
/// a mask: it is followed until an op that does not take masks (OpInfo::numerics) makes something else of it, and
/// blamed then where it came from: an op, a batch that a product read it from, or itself where nothing but masks went
/// in. Where one op reads the parameters of several modules below its own path (the projections of an attention), the
/// part is named whose channel, weight or gradient it is.
class FirstBadSearch final : public TapeObserver {
 public:
  /// `batch`: rows of a micro-batch; 0: as many as the first tensor that comes from outside of the model has. Row r of
  /// micro-batch m is sample m * `stride` + r; 0: the rows of one micro-batch.
  explicit FirstBadSearch(std::int64_t batch, std::int64_t stride = 0) : batch_(batch), stride_(stride) {}

  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;
  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                     const Observation& seen) override;
  bool separates_gradients() const override { return true; }  // a sum may owe its NaN to another op
  void after_backward(const OpCall& call, std::span<const Tensor> gy, std::span<const Tensor> gx,
                      const Observation& seen) override;

  /// When the run has ended.
  std::optional<FirstBad> found() const;
  /// The first op that read a weight, by module path and name; where nothing is known, the path alone.
  std::pair<std::string, std::string> reader_of(const std::string& parameter) const;

 private:
  FirstBad describe(const OpCall& call, const Tensor& tensor, const NonFiniteScan& scan,
                    std::span<const Tensor> operands) const;
  FirstBad from_batch(const OpCall& call, const Tensor& tensor, const NonFiniteScan& scan) const;
  FirstBad from_weight(const OpCall& call, const Tensor& tensor, const NonFiniteScan& scan,
                       const std::string& name) const;
  std::vector<std::int64_t> samples_of(const Tensor& tensor, const NonFiniteScan& scan) const;
  void note_operands(const OpCall& call, std::span<const Variable> inputs, const Tensors& read);

  /// A module that one op computes with others: its path, and where its channels end in a result that has those of all
  /// side by side, as many as the first parameter of each has rows.
  struct Part {
    std::string module{};
    std::int64_t end = 0;
  };
  void note_parts(const OpCall& call, std::span<const Variable> inputs);
  /// The part that input `i` of a call belongs to; null where it has no parts, or the input belongs to all.
  const Part* part_of_input(std::int64_t tape_index, std::size_t i) const;
  /// The part that has a channel; null where there are no parts, or they do not make up the result's `channels`.
  const Part* part_of_channel(std::int64_t tape_index, std::int64_t channel, std::int64_t channels) const;
  static void name_part(FirstBad& bad, const Part* part);
  bool leads_to_weight(std::int64_t tape_index) const;

  std::int64_t batch_, stride_;
  std::map<std::int64_t, std::vector<std::int64_t>> users_;  // of an op's results, by tape index, in this micro-batch
  std::set<std::int64_t> weight_readers_;
  std::map<std::int64_t, std::vector<Part>> parts_;  // of ops that have some, one an input, in this micro-batch
  std::map<std::string, std::pair<std::string, std::string>> readers_;  // of a weight: module, op
  std::set<std::int64_t> scores_;          // tape indices of products that a softmax reads, in this micro-batch
  std::set<std::int64_t> at_singularity_;  // tape indices of ops that were evaluated at their singularity
  std::int64_t micro_batch_ = -1;
  bool reads_batch_ = false;  // the op at hand reads nothing but what came from outside
  std::optional<FirstBad> found_;
  std::optional<FirstBad> negative_;  // the first -inf that an op made of finite operands
  std::optional<FirstBad> mask_;      // the first -inf that came from outside
};

}  // namespace binade::amp
