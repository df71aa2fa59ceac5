#include "binade/nn/weight_norm.h"

#include <vector>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/error.h"

namespace binade::nn::detail {

int checked_weight_axis(const char* kind, const Parameter& weight, int axis) {
  check<ArgumentError>(weight.defined(), "{}: wanted a layer with a weight of its own, got one without", kind);
  const int rank = weight.value().rank();
  check<ArgumentError>(axis >= -rank && axis < rank, "{}: wanted an axis of the weight {}, got {}", kind,
                       weight.shape(), axis);
  return axis < 0 ? axis + rank : axis;
}

Variable slice_lengths(const Variable& v, int axis) {
  std::vector<int> others;
  for (int d = 0; d < v.value().rank(); ++d)
    if (d != axis) others.push_back(d);
  return sqrt(sum(square(v), others, true));
}

}  // namespace binade::nn::detail
