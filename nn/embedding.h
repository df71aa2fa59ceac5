#pragma once

#include "binade/autograd/functions/embedding.h"
#include "binade/nn/init.h"

namespace binade::nn {

/// Options of Embedding.
struct EmbeddingOptions {
  std::int64_t count = 0, dim = 0;  ///< number of rows, values per row
};

/// Maps indices (…), i64 or i32, to rows (…, dim) of weight (count, dim). Initialized as in PyTorch, from N(0, 1).
class Embedding : public Module {
 public:
  explicit Embedding(const EmbeddingOptions& o) {
    check<ArgumentError>(o.count > 0 && o.dim > 0, "Embedding: wanted count > 0 and dim > 0, got {} and {}", o.count,
                         o.dim);
    weight = Parameter(Tensor::empty({o.count, o.dim}, DType::f32, Runtime::current_device()));
    init::normal(weight);
  }
  void visit(Visitor& v) override { v("weight", weight); }
  std::string kind() const override { return "Embedding"; }
  Variable forward(const Variable& indices) override { return embedding(weight, indices); }

  Parameter weight;
};

}  // namespace binade::nn
