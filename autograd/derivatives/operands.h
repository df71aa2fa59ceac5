#pragma once

#include "binade/autograd/derivatives/formulas.h"

namespace binade::derivatives {

/// The inputs a and b of a binary op. An input that no derivative of this call reads is undefined: forward saved none.
struct Operands {
  Variable a, b;

  template <class Op>
  static Operands of(const RecordedCall& call) {
    const unsigned read = (call.described(0).needs_grad ? static_cast<unsigned>(Op::a_reads) : 0u) |
                          (call.described(1).needs_grad ? static_cast<unsigned>(Op::b_reads) : 0u);
    Operands operands;
    if ((read & 1u) != 0) operands.a = wide(call.input(0, 0));
    if ((read & 2u) != 0) operands.b = wide(call.input(1, (read & 1u) != 0 ? 1 : 0));
    return operands;
  }
};

}  // namespace binade::derivatives
