#include "autograd/functions/embedding.h"

#include "autograd/apply.h"
#include "core/ops/embedding.h"

namespace binade {

Variable embedding(const Variable& weight, const Variable& indices) {
  return apply_one<ops::Embedding>({}, {weight, indices});
}

}  // namespace binade
