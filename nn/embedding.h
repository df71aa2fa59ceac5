#pragma once

#include "binade/autograd/functions/embedding.h"
#include "binade/autograd/functions/index.h"
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

/// Options of EmbeddingBag.
struct EmbeddingBagOptions {
  std::int64_t count = 0, dim = 0;  ///< number of rows, values per row
  BagMode mode = BagMode::kMean;    ///< how the rows of a bag are combined
};

/// Combines the rows of weight (count, dim) that each bag of indices names: see embedding_bag(). Initialized as in
/// PyTorch, from N(0, 1).
class EmbeddingBag : public Module {
 public:
  explicit EmbeddingBag(const EmbeddingBagOptions& o) : mode_(o.mode) {
    check<ArgumentError>(o.count > 0 && o.dim > 0, "EmbeddingBag: wanted count > 0 and dim > 0, got {} and {}", o.count,
                         o.dim);
    weight = Parameter(Tensor::empty({o.count, o.dim}, DType::f32, Runtime::current_device()));
    init::normal(weight);
  }
  void visit(Visitor& v) override { v("weight", weight); }
  std::string kind() const override { return "EmbeddingBag"; }
  /// Each row of indices (bags, m) is a bag: (bags, m) -> (bags, dim).
  Variable forward(const Variable& indices) override { return embedding_bag(weight, indices, {}, mode_); }
  using Module::operator();
  /// Bag b has the indices (n) from offsets[b] up to offsets[b + 1]. `row_weights`, of the shape of the indices, are
  /// for mode kSum; may be undefined.
  Variable operator()(const Variable& indices, const Variable& offsets, const Variable& row_weights = {}) {
    const ModuleScope scope(*this);
    return embedding_bag(weight, indices, offsets, mode_, row_weights);
  }

  Parameter weight;

 private:
  BagMode mode_;
};

}  // namespace binade::nn
