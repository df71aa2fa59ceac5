#pragma once

#include <limits>
#include <span>

#include "autograd/observer.h"

namespace binade::amp {

/// The legal range of an operand with a pole, as far as the contract (OpInfo::numerics) has bounds; they are poles too.
struct Legal {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};
Legal legal_range(const OpInfo& info);

/// Operands in which the pole lies, of `count`: the divisor of a division, the predictions of a loss, all there are
/// else.
struct PoleOperands {
  std::size_t begin = 0, end = 0;
};
PoleOperands pole_operands(const OpInfo& info, std::size_t count);

/// How near the operands of an op come to its pole.
struct PoleDistance {
  DType dtype = DType::f32;  ///< of the operand
  /// Binades to where value or derivative may leave the range of floats: below 0 they may, infinite: not near at all.
  double binades = std::numeric_limits<double>::infinity();
};
/// Reads the operands of an op with a pole; NaN among them is ignored. A division by the number 0 is at its pole.
PoleDistance pole_distance(const OpCall& call, std::span<const Tensor> operands);

}  // namespace binade::amp
