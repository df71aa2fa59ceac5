#pragma once

#include "binade/nn/linear.h"

namespace binade::nn {

/// Options of Lora.
struct LoraOptions {
  std::int64_t rank = 8;
  double alpha = 8;    ///< the update of the weight is alpha / rank lora_b lora_a
  double dropout = 0;  ///< probability that an element of the input of lora_a is dropped in training
};

/// A frozen Linear with a trained update of low rank (Hu et al., "LoRA", 2021): y = layer(x) + alpha / rank (dropout(x)
/// lora_a^T) lora_b^T, with lora_a (rank, in) and lora_b (out, rank). lora_b begins at 0, so that the model computes
/// what it did before; lora_a is initialized like the weight of a Linear.
///
///   nn::Lora query(std::move(pretrained), {.rank = 8, .alpha = 16});
///
/// The layer keeps its names ("weight", "bias"), and the update has lora_a and lora_b. A state of the model without
/// updates thus loads with {.strict = false}, and misses only lora_a and lora_b.
class Lora : public Module {
 public:
  /// Freezes the parameters of the layer. Throws ArgumentError if the layer has an activation, which would be applied
  /// before the update is added.
  explicit Lora(Linear layer, const LoraOptions& options = {});
  void visit(Visitor& v) override;
  std::string kind() const override { return "Lora"; }
  Variable forward(const Variable& x) override;

  /// Adds the update to the weight, for predictions without its cost. While it is merged, the module has the parameters
  /// of a Linear only, so that its state loads into a model without updates, and forward in training mode is an error.
  void merge();
  /// Restores the bits that the weight had before merge(). Throws ArgumentError if the weight was changed meanwhile,
  /// for example by load().
  void unmerge();
  bool merged() const { return original_.defined(); }

  Linear layer;
  Parameter lora_a, lora_b;

 private:
  LoraOptions options_;
  Tensor original_;          // the weight before merge(); undefined: not merged
  std::string merged_bits_;  // hash of the weight that merge() wrote
};

}  // namespace binade::nn
