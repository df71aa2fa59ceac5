#include "autograd/functions/matmul.h"

#include "autograd/apply.h"

namespace binade {

Variable matmul(const Variable& a, const Variable& b, const ops::Matmul::Params& params) {
  return apply_one<ops::Matmul>(params, {a, b});
}

Variable linear(const Variable& x, const Variable& w, const Variable& bias, const ops::Linear::Params& params) {
  return apply_one<ops::Linear>(params, {x, w, bias});
}

}  // namespace binade
