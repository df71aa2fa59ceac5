#pragma once

#include <functional>
#include <memory>

#include "binade.h"
#include "tests/faults/spot.h"
#include "tests/lab/pair_batch.h"

namespace binade::faults {

using Batch = lab::PairBatch;

/// A place in a model where a fault can insert user code. Without code it returns its input.
struct Site : nn::Module {
  std::function<Variable(const Variable&)> code;
  void visit(nn::Visitor&) override {}
  Variable forward(const Variable& x) override { return code && training() ? code(x) : x; }
};

/// A small model of one of the three kinds, with sites extra.0, extra.1 and extra.2 between its layers.
class Model : public nn::Module {
 public:
  Model() {
    for (int i = 0; i < kSites; ++i) extra.emplace_back();
  }
  virtual Variable loss(const Variable& logits, const Tensor& y) const = 0;
  nn::ModuleList<Site> extra;
};

/// `composed`: attention as matmul, softmax and matmul instead of the fused op.
std::unique_ptr<Model> make_model(ModelKind kind, bool composed);

/// Samples `ids` of the task for models of that kind.
Batch make_batch(ModelKind kind, std::uint64_t seed, std::span<const std::int64_t> ids);

}  // namespace binade::faults
