#pragma once

#include <optional>
#include <string>
#include <vector>

#include "binade/amp/preflight/finding.h"
#include "binade/amp/preflight/survey.h"

namespace binade::amp {

/// Whether the value of an op with a pole, or its derivative where one is wanted, is not finite where the operand that
/// the pole belongs to is `x`.
bool breaks_at(const SurveyedOp& op, double x);

/// The operand that an op's pole belongs to: the divisor, what a logarithm is taken of.
const SurveyedOperand& operand_at_pole(const SurveyedOp& op);

/// A value that the operand can take and that breaks the op; nothing where no bound lets it come that far.
std::optional<double> reachable_pole(const SurveyedOp& op);

/// How an operand follows from one number that it hangs on: through elementwise ops, means, sums and softmaxes, back to
/// an op that mixes several tensors, or to a leaf.
class OperandChain {
 public:
  OperandChain(const Survey& survey, const SurveyedOperand& operand);

  /// From the number to the operand.
  const std::vector<const SurveyedOp*>& ops() const { return ops_; }
  const SurveyedOp* find(std::string_view name) const;
  /// What the operand is where the number is `x`, rounded on the way as the tensors are.
  double follow(double x) const;
  /// The smallest number that breaks `op`, and how. Where none was found: the operand at its pole itself.
  Trigger trigger(const SurveyedOp& op, double pole) const;

 private:
  std::string source() const;
  std::string describe(const SurveyedOp& op, double x) const;

  std::vector<const SurveyedOp*> ops_;
  ValueRange range_;  // of the number
  DType dtype_ = DType::f32;
  const SurveyedOp* mixed_ = nullptr;  // what made the number; null: a leaf
};

}  // namespace binade::amp
