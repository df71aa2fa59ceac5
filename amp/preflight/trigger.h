#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/amp/preflight/finding.h"
#include "binade/amp/preflight/survey.h"

namespace binade::amp {

/// An operand and a value of it.
struct OperandValue {
  std::size_t operand = 0;
  double x = 0;
};

/// Whether the value of a singular op, or its derivative if one is wanted, is not finite at that value of an operand.
bool breaks_at(const SurveyedOp& op, const OperandValue& at);

/// A value that an operand can take and that breaks the op by a singularity it states; nothing if its range keeps every
/// operand away.
std::optional<OperandValue> reachable_singularity(const SurveyedOp& op);

/// How an operand follows from one number that it hangs on: through elementwise ops, means, sums and softmaxes, back to
/// an op that mixes several tensors, or to a leaf.
class OperandChain {
 public:
  OperandChain(const Survey& survey, const SurveyedOperand& operand);

  /// From the number to the operand.
  const std::vector<const SurveyedOp*>& ops() const { return ops_; }
  /// The first that is this op; null: none is.
  template <class Op>
  const SurveyedOp* find() const {
    for (const SurveyedOp* op : ops_)
      if (op->is<Op>()) return op;
    return nullptr;
  }
  /// What the operand is where the number is `x`, rounded on the way as the tensors are.
  double follow(double x) const;
  /// The smallest number that breaks `op`, and how. If none is found: the operand's own value `broken`.
  Trigger trigger(const SurveyedOp& op, const OperandValue& broken) const;

 private:
  std::string source() const;
  std::string describe(const SurveyedOp& op, double x) const;

  std::vector<const SurveyedOp*> ops_;
  ValueRange range_;  // of the number
  DType dtype_ = DType::f32;
  const SurveyedOp* mixed_ = nullptr;  // what made the number; null: a leaf
};

}  // namespace binade::amp
