#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/autograd/observer.h"
#include "binade/core/dtype.h"
#include "binade/core/ops/value_range.h"

namespace binade::amp {

/// Returns x rounded to `dtype`.
double rounded(double x, DType dtype);
/// Returns the range with both bounds rounded to `dtype`. The rounded range of a sigmoid, for example, includes 0 and
/// 1.
ValueRange rounded(const ValueRange& range, DType dtype);

/// An elementwise op of one input with the parameters of one call, as functions of one number. The functions compute in
/// float, as the kernels do, but do not round the result to the dtype in which kernels store it.
struct ScalarOp {
  std::function<double(double x)> value{};
  std::function<double(double x, double gy)> gradient{};
};
/// Returns the op of a call as functions of one number; std::nullopt if the op is not elementwise or has two inputs.
std::optional<ScalarOp> scalar_op(const OpCall& call);

/// The range of a tensor's finite values, and the kinds of its non-finite values.
struct Extremes {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool nan = false, positive = false, negative = false;  ///< true if there is a NaN, an inf, a -inf

  bool finite() const { return !nan && !positive && !negative; }
  double largest() const;  ///< largest finite magnitude
};
Extremes extremes_of(const Tensor& tensor);

/// An operand of an op call.
struct SurveyedOperand {
  bool given = false;          ///< false: an optional input that was left out
  int producer = -1;           ///< index of the op that computed the operand; -1: a leaf
  const void* leaf = nullptr;  ///< address of a leaf's values
  std::string parameter{};     ///< path of the parameter, if the operand is one
  bool varies = false;         ///< true if the operand depends on weights; false if only on the batch and on constants
  DType dtype = DType::f32;    ///< dtype in which the op read the operand
  std::int64_t numel = 0;
  ValueRange range{};                  ///< values that the operand can have
  std::optional<Extremes> observed{};  ///< extremes of the values that the operand had; set only if rules need them
};

/// An op call of the measured step: its operands, the possible and the observed results.
struct SurveyedOp {
  const OpInfo* info = nullptr;
  std::string module{};
  std::int64_t tape_index = 0;
  std::vector<SurveyedOperand> operands{};
  DType dtype = DType::f32;  ///< dtype of the stored result
  std::int64_t numel = 0;
  bool varies = false;               ///< true if the result depends on weights
  ValueRange range{};                ///< values that the result can have
  std::optional<ScalarOp> scalar{};  ///< the op as functions of one number; only for elementwise ops of one input
  std::optional<double> eps{};       ///< guard of the denominator: the op's parameter `eps` or `smooth`
  Observation amax{};                ///< largest magnitudes of the results
  std::optional<Extremes> result{};  ///< extremes of the results; set only if rules need them
  bool breaks = false;               ///< the op computed a non-finite result from finite operands, or a NaN from masks
  bool masked = false;               ///< the result holds the -inf or the large negative constants of a mask
  bool cancels = false;              ///< the op computes mean of squares minus square of mean
  std::int64_t masked_rows = 0;      ///< softmax and attention: number of rows in which every entry is masked
  bool no_label = false;             ///< cross entropy: true if every label is the ignored one
  Observation gradients{};           ///< largest magnitudes of the gradients that backward computed
  DType gradient_dtype = DType::f32;
  bool backward_breaks = false;  ///< backward computed a non-finite gradient from finite ones

  /// True if the op is one of `Ops`.
  template <class... Ops>
  bool is() const {
    return ((info == &Ops::info) || ...);
  }
  bool overflows() const;  ///< true if a result exceeds the range of its dtype
};

/// Observes one run of a step and collects the input of the rules: each op call with its contract, the range of its
/// possible results (by interval arithmetic from the leaves on), and its observed results. Does not change the run.
class Survey final : public TapeObserver {
 public:
  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;
  double eps_of(const OpCall& call, double eps) override;
  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                     const Observation& amax) override;
  bool separates_gradients() const override { return true; }
  void after_backward(const OpCall& call, std::span<const Tensor> gy, std::span<const Tensor> gx,
                      const Observation& amax) override;

  const std::vector<SurveyedOp>& ops() const { return ops_; }
  const SurveyedOp& op(int position) const { return ops_[static_cast<std::size_t>(position)]; }
  /// Returns the op that computed an operand; null for a leaf.
  const SurveyedOp* producer(const SurveyedOperand& operand) const {
    return operand.producer < 0 ? nullptr : &op(operand.producer);
  }
  /// Returns the op that computed the operand's values, before reshapes, permutations and casts; null for a leaf.
  const SurveyedOp* source(const SurveyedOperand& operand) const;

 private:
  /// Returns the range of an operand: that of its producer or, for a leaf, of its values.
  SurveyedOperand survey_operand(const OpInfo& info, const Variable& input, const Tensor& read) const;
  /// Returns the position in ops_ of the op that computed an input; -1 for a leaf.
  int producer_of(const Variable& input, const Tensor& read) const;
  /// Measures operands and result of the ops whose extremes rules need: 16-bit sums, masks in f16, ops that overflow.
  void measure(SurveyedOp& op, std::span<const Tensor> read, const Tensors& outputs);
  /// Keeps results by address (held_), because other ops may read them as leaves, without their graph node.
  void hold(const SurveyedOp& op, int position, const Tensors& outputs);

  std::vector<SurveyedOp> ops_;
  SurveyedOp next_;                        // the running op, from before_forward() to after_forward()
  std::optional<double> next_eps_;         // eps of the running op
  std::map<std::int64_t, int> positions_;  // by tape index: position in ops_
  // By address: results that other ops may read without their graph node, each with the position of its op in ops_.
  std::map<const void*, std::pair<int, Tensor>> held_;
};

/// Returns the range of the values that an op's first result can have. `output`: the observed first result.
ValueRange range_of_result(const Survey& survey, const SurveyedOp& op, const OpCall& call, const Tensor& output);

/// True if `op` computes a variance as mean(x^2) - mean(x)^2.
bool is_one_pass_variance(const Survey& survey, const SurveyedOp& op);

/// Returns the number of rows in which every entry is masked, of a softmax, log-softmax or attention; 0 for other ops.
std::int64_t count_masked_rows(const SurveyedOp& op, const OpCall& call, std::span<const Tensor> read);

/// A constant operand that contains -inf, or a value of at most kMaskedBelow, counts as an additive mask.
inline constexpr double kMaskedBelow = -8192;

}  // namespace binade::amp
