#pragma once

#include "binade/nn/constant_cache.h"
#include "binade/nn/dropout.h"
#include "binade/nn/linear.h"

namespace binade::nn {

/// The keys and values of the tokens so far, for the generation of text. A text begins with an empty cache, and each
/// call of the attention appends the keys and values of the new tokens.
struct AttentionCache {
  Variable key{}, value{};  ///< (B, S, kv_heads D) for S tokens
  std::int64_t length() const { return key.defined() ? key.dim(1) : 0; }
};

/// Options of MultiHeadAttention.
struct MultiHeadAttentionOptions {
  std::int64_t dim = 0, heads = 1;
  std::int64_t kv_heads = 0;  ///< key-value heads; heads / kv_heads query heads share one (0: equal to `heads`)
  bool causal = false;        ///< true if a token sees only itself and earlier tokens
  double dropout = 0;         ///< probability that an attention weight is dropped
  bool bias = true;
  /// True: computed by separate ops (matmul, softmax, matmul), which a policy and the diagnosis can address separately
  bool composed = false;
};

/// Computes self-attention (Vaswani et al., 2017) of x (B, T, dim) -> (B, T, dim): for each head, with D = dim / heads,
/// softmax(q k^T / sqrt(D) + mask) v, and then the layer `out` of all heads. The parameters are in the layers query,
/// key, value and out.
///
/// One op, `projections` (ops::Projections), computes query, key and value. It has the module path of the attention,
/// and reads the three weights in place if an optimizer stores them side by side. Three `linear` ops, with the paths of
/// the members query, key and value, replace it in four cases: with `composed`, with a cache, in 8 bits (each layer has
/// its own history of magnitudes), and if a policy override for one of the three (`*.key`, `linear`) differs from that
/// for `projections`.
class MultiHeadAttention : public Module {
 public:
  explicit MultiHeadAttention(const MultiHeadAttentionOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "MultiHeadAttention"; }
  Variable forward(const Variable& x) override;

  using Module::operator();
  /// Processes the T tokens that follow those in `cache`, and appends their keys and values to it.
  Variable operator()(const Variable& x, AttentionCache& cache);
  /// Like forward(), with a mask that is added to the logits and broadcasts to (B, heads, T, T): 0 for visible keys,
  /// -inf for hidden ones. For a query without visible keys the result is 0 in the fused op, and NaN if composed, as
  /// the softmax of a row of -inf is.
  Variable operator()(const Variable& x, const Variable& mask);

  const MultiHeadAttentionOptions& options() const { return options_; }

  Linear query, key, value, out;

 private:
  Variable attend_to_itself(const Variable& x, const Variable& mask);
  /// True if one op may compute query, key and value.
  bool projects_at_once() const;
  /// Computes the attention without the output layer. If k and v are undefined, q is the result of `projections`, which
  /// contains all three.
  Variable attend(const Variable& q, const Variable& k, const Variable& v, const Variable& mask);
  Variable attend_composed(const Variable& q, const Variable& k, const Variable& v, const Variable& mask);

  /// Returns a mask (queries, keys) with the dtype and device of `like`. The queries are the last ones of the sequence;
  /// keys after a query have -inf, all others 0.
  Tensor causal_mask(std::int64_t queries, std::int64_t keys, const Variable& like);

  MultiHeadAttentionOptions options_;
  ConstantCache causal_masks_;
};

}  // namespace binade::nn
