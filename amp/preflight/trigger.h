#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/amp/preflight/finding.h"
#include "binade/amp/preflight/survey.h"

namespace binade::amp {

/// A value of an operand.
struct OperandValue {
  std::size_t operand = 0;  ///< index of the operand
  double x = 0;
};

/// True if the result of a singular op (or its derivative, if backward needs one) is not finite for that operand value.
bool breaks_at(const SurveyedOp& op, const OperandValue& at);

/// Returns an operand's value, within its range, for which the op breaks at a stated singularity; std::nullopt if there
/// is none.
std::optional<OperandValue> reachable_singularity(const SurveyedOp& op);

/// The chain of ops that computes an operand from one number: elementwise ops, means, sums and softmaxes. The chain
/// begins at a leaf, or at the result of an op that combines several tensors.
class OperandChain {
 public:
  OperandChain(const Survey& survey, const SurveyedOperand& operand);

  /// Returns the ops of the chain, in order of execution.
  const std::vector<const SurveyedOp*>& ops() const { return ops_; }
  /// Returns the first call of `Op`; null if there is none.
  template <class Op>
  const SurveyedOp* find() const {
    for (const SurveyedOp* op : ops_)
      if (op->is<Op>()) return op;
    return nullptr;
  }
  /// Computes the operand from the number `x` at the start of the chain, rounding each result to its dtype.
  double operand_at(double x) const;
  /// Returns the trigger of `op`: the number of smallest magnitude at the start of the chain for which the op's result
  /// is not finite; or the operand value `broken`, if no such number is found.
  Trigger trigger(const SurveyedOp& op, const OperandValue& broken) const;

 private:
  /// Describes the start of the chain: a leaf, or the result of an op.
  std::string source() const;
  /// Describes how the number `x` at the start of the chain breaks `op`.
  std::string describe(const SurveyedOp& op, double x) const;

  std::vector<const SurveyedOp*> ops_;
  ValueRange range_;  // possible values of the number at the start of the chain
  DType dtype_ = DType::f32;
  const SurveyedOp* source_ = nullptr;  // the op that computed the number; null: a leaf
};

}  // namespace binade::amp
