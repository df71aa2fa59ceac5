#pragma once

#include "binade/nn/module.h"

namespace binade::nn {

struct EmbeddingOptions {
  std::int64_t count = 0, dim = 0;  ///< rows of the table; values in a row
};

/// Indices (…), i64 or i32 -> rows (…, dim) of weight (count, dim). Initialized N(0, 1), as PyTorch's.
class Embedding : public Module {
 public:
  explicit Embedding(const EmbeddingOptions& options);
  void visit(Visitor& v) override { v("weight", weight); }
  std::string kind() const override { return "Embedding"; }
  Variable forward(const Variable& indices) override;

  Parameter weight;
};

}  // namespace binade::nn
