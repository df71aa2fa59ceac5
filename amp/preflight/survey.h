#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binade/amp/preflight/rounding.h"
#include "binade/amp/preflight/scalar_op.h"
#include "binade/autograd/observer.h"

namespace binade::amp {

/// What is in a tensor: the ends of its finite values, and what is not finite.
struct Extremes {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool nan = false, positive = false, negative = false;  ///< a NaN, an inf, a -inf somewhere

  bool finite() const { return !nan && !positive && !negative; }
  double largest() const;  ///< magnitude of the finite values
};
Extremes extremes_of(const Tensor& tensor);

/// What an op read.
struct SurveyedOperand {
  bool given = false;          ///< false: an optional input that was left out
  int producer = -1;           ///< position of the op that made it; -1: a leaf
  const void* leaf = nullptr;  ///< where a leaf's values lie
  std::string parameter{};     ///< its path, if it is a parameter
  bool varies = false;         ///< depends on weights; else on the batch and on constants alone
  DType dtype = DType::f32;    ///< as it was read
  std::int64_t numel = 0;
  ValueRange range{};              ///< values that it can have
  std::optional<Extremes> seen{};  ///< values that it had, if they matter
};

/// An op of the measured step: what it read, what it can give, what it gave.
struct SurveyedOp {
  const OpInfo* info = nullptr;
  std::string module{};
  std::int64_t tape_index = 0;
  std::vector<SurveyedOperand> operands{};
  DType dtype = DType::f32;  ///< stored
  std::int64_t numel = 0;
  bool varies = false;
  ValueRange range{};
  std::optional<ScalarOp> scalar{};  ///< elementwise ops of one input
  std::optional<double> eps{};       ///< the guard of its denominator: its parameter `eps` or `smooth`
  Observation seen{};                ///< of its results
  std::optional<Extremes> result{};  ///< set if a value is beyond the dtype's range, or not finite
  bool breaks = false;               ///< it computed a non-finite result from finite operands, or a NaN from masks
  bool masked = false;               ///< a mask's large negative constants, or -inf, are among its results
  bool cancels = false;              ///< mean of squares minus square of mean
  std::int64_t masked_rows = 0;      ///< softmax, attention: rows in which every entry is masked
  bool no_label = false;             ///< cross entropy: every label is the ignored one
  Observation gradients{};           ///< of the gradients that its backward computed
  DType gradient_dtype = DType::f32;
  bool backward_breaks = false;

  /// Whether it is one of these ops.
  template <class... Ops>
  bool is() const {
    return ((info == &Ops::info) || ...);
  }
  bool overflows() const;  ///< a result is beyond what its dtype holds
};

/// Watches one run of a step and keeps what rules look at: for each op its contract, the range of values that it can
/// give (interval arithmetic from the leaves on), and what the measured batch made of it. Moves nothing.
class Survey final : public TapeObserver {
 public:
  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;
  double eps_of(const OpCall& call, double eps) override;
  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                     const Observation& seen) override;
  bool separates_gradients() const override { return true; }
  void after_backward(const OpCall& call, std::span<const Tensor> gy, std::span<const Tensor> gx,
                      const Observation& seen) override;

  const std::vector<SurveyedOp>& ops() const { return ops_; }
  const SurveyedOp& op(int position) const { return ops_[static_cast<std::size_t>(position)]; }
  /// The op that made an operand; null for a leaf.
  const SurveyedOp* producer(const SurveyedOperand& operand) const {
    return operand.producer < 0 ? nullptr : &op(operand.producer);
  }
  /// The same behind reshapes, permutations and casts.
  const SurveyedOp* source(const SurveyedOperand& operand) const;

 private:
  SurveyedOperand survey_operand(const OpInfo& info, const Variable& input, const Tensor& read) const;
  int producer_of(const Variable& input, const Tensor& read) const;
  void measure(SurveyedOp& op, std::span<const Tensor> read, const Tensors& outputs);
  void hold(const SurveyedOp& op, int position, const Tensors& outputs);

  std::vector<SurveyedOp> ops_;
  SurveyedOp next_;  // between before_forward and after_forward
  std::optional<double> next_eps_;
  std::map<std::int64_t, int> positions_;               // by tape index
  std::map<const void*, std::pair<int, Tensor>> held_;  // results that may come back without their history
};

/// The range of an op's first result. `call` is the op's, `output` what it gave.
ValueRange range_of_result(const Survey& survey, const SurveyedOp& op, const OpCall& call, const Tensor& output);

/// Whether `op` is mean(x^2) - mean(x)^2.
bool is_one_pass_variance(const Survey& survey, const SurveyedOp& op);

/// Softmax, log-softmax and attention: rows in which every entry is masked.
std::int64_t count_masked_rows(const SurveyedOp& op, const OpCall& call, std::span<const Tensor> read);

/// Additive masks hold constants below this, or -inf.
inline constexpr double kMaskedBelow = -8192;

}  // namespace binade::amp
