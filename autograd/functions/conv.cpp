#include "binade/autograd/functions/conv.h"

#include "binade/autograd/apply.h"

namespace binade {

Variable conv2d(const Variable& x, const Variable& w, const Variable& bias, const ops::Conv2d::Params& params) {
  return apply_one<ops::Conv2d>(params, {x, w, bias});
}

Variable conv_transpose2d(const Variable& x, const Variable& w, const Variable& bias,
                          const ops::ConvTranspose2d::Params& params) {
  return apply_one<ops::ConvTranspose2d>(params, {x, w, bias});
}

}  // namespace binade
