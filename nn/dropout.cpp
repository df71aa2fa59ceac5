#include "binade/nn/dropout.h"

#include "binade/autograd/functions/elementwise.h"
#include "binade/core/error.h"

namespace binade::nn {

Dropout::Dropout(const DropoutOptions& o) : options_(o) {
  check<ArgumentError>(o.p >= 0 && o.p < 1, "Dropout: wanted p in [0, 1), got {}", o.p);
}

Variable Dropout::forward(const Variable& x) {
  check<ArgumentError>(x.defined(), "Dropout: x is undefined");
  return training() && options_.p > 0 ? dropout(x, options_.p) : x;
}

}  // namespace binade::nn
