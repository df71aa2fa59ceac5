#include "binade/autograd/functions/attention.h"

#include "binade/autograd/apply.h"

namespace binade {

Variable attention(const Variable& q, const Variable& k, const Variable& v, const ops::Attention::Params& params,
                   const Variable& mask) {
  return apply_one<ops::Attention>(params, {q, k, v, mask});
}

}  // namespace binade
