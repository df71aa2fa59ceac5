#include "binade/nn/embedding.h"

#include "binade/autograd/functions/embedding.h"
#include "binade/core/error.h"
#include "binade/nn/init.h"

namespace binade::nn {

Embedding::Embedding(const EmbeddingOptions& o) {
  check<ArgumentError>(o.count > 0 && o.dim > 0, "Embedding: wanted count > 0 and dim > 0, got {} and {}", o.count,
                       o.dim);
  weight = Parameter(Tensor::empty({o.count, o.dim}, DType::f32, Runtime::current_device()));
  init::normal(weight);
}

Variable Embedding::forward(const Variable& indices) { return embedding(weight, indices); }

}  // namespace binade::nn
