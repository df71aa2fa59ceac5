#include "binade/autograd/functions/embedding.h"

#include "binade/autograd/apply.h"
#include "binade/core/ops/embedding.h"

namespace binade {

Variable embedding(const Variable& weight, const Variable& indices) {
  return apply_one<ops::Embedding>({}, {weight, indices});
}

}  // namespace binade
