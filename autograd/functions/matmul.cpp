#include "binade/autograd/functions/matmul.h"

#include "binade/autograd/apply.h"

namespace binade {

Variable matmul(const Variable& a, const Variable& b, const ops::Matmul::Params& params) {
  return apply_one<ops::Matmul>(params, {a, b});
}

Variable linear(const Variable& x, const Variable& w, const Variable& bias, const ops::Linear::Params& params) {
  return apply_one<ops::Linear>(params, {x, w, bias});
}

Variable projections(const Variable& x, const std::array<Variable, ops::Projections::kParts>& weights,
                     const std::array<Variable, ops::Projections::kParts>& biases) {
  return apply_one<ops::Projections>({}, {x, weights[0], weights[1], weights[2], biases[0], biases[1], biases[2]});
}

}  // namespace binade
