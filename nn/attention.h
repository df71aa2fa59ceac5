#pragma once

#include "binade/nn/dropout.h"
#include "binade/nn/linear.h"

namespace binade::nn {

/// Keys and values of the tokens so far, for sampling. Start with an empty one; each call appends to it.
struct AttentionCache {
  Variable key{}, value{};  ///< (B, S, kv_heads D)
  std::int64_t length() const { return key.defined() ? key.dim(1) : 0; }
};

struct MultiHeadAttentionOptions {
  std::int64_t dim = 0, heads = 1;
  std::int64_t kv_heads = 0;  ///< key-value heads; heads / kv_heads query heads share one (0: equal to `heads`)
  bool causal = false;        ///< true if a token sees only itself and earlier tokens
  double dropout = 0;         ///< of the attention weights
  bool bias = true;
  bool composed =
      false;  ///< true: matmul, softmax and matmul as separate ops, for which the policy and diagnosis apply separately
};

/// Self-attention (Vaswani et al., 2017) of x (B, T, dim) -> (B, T, dim): out(softmax(q k^T / sqrt(D) + mask) v) per
/// head, D = dim / heads. Parameters at query|key|value|out.
///
/// query, key and value of a sequence are computed by one op, `projections`, at the attention's own path
/// (ops::Projections), which reads the three weights in place if an optimizer stores them. They are three `linear` ops
/// at query|key|value if `composed`, with a cache, in 8 bits (each has its own history), and if a policy override for
/// one of them (`*.key`, `linear`) differs from that for the attention's `projections`.
class MultiHeadAttention : public Module {
 public:
  explicit MultiHeadAttention(const MultiHeadAttentionOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "MultiHeadAttention"; }
  Variable forward(const Variable& x) override;

  using Module::operator();
  /// Processes the next T tokens after those of `cache`, and appends them to it.
  Variable operator()(const Variable& x, AttentionCache& cache);
  /// With an additive mask that broadcasts to (B, heads, T, T): 0 for visible keys, -inf for hidden ones. A fully
  /// masked row gives 0 in the fused op, and NaN if composed (a softmax of nothing).
  Variable operator()(const Variable& x, const Variable& mask);

  const MultiHeadAttentionOptions& options() const { return options_; }

  Linear query, key, value, out;

 private:
  Variable attend_to_itself(const Variable& x, const Variable& mask);
  /// True if one op may compute query, key and value.
  bool projects_at_once() const;
  /// If k and v are undefined, q holds all three.
  Variable attend(const Variable& q, const Variable& k, const Variable& v, const Variable& mask);
  Variable attend_composed(const Variable& q, const Variable& k, const Variable& v, const Variable& mask);

  /// Returns a (T, S) mask in like's dtype on its device, with -inf for keys that query i of the last T queries must
  /// not see. Cached, so that a step copies nothing from the host.
  const Tensor& causal_mask(std::int64_t queries, std::int64_t keys, const Variable& like);

  MultiHeadAttentionOptions options_;
  Tensor causal_mask_;
};

}  // namespace binade::nn
