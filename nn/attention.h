#pragma once

#include "binade/nn/dropout.h"
#include "binade/nn/linear.h"

namespace binade::nn {

/// Keys and values of the tokens so far, for sampling: grows by each call. Start with a default one.
struct AttentionCache {
  Variable key{}, value{};  ///< (B, S, kv_heads D)
  std::int64_t length() const { return key.defined() ? key.dim(1) : 0; }
};

struct MultiHeadAttentionOptions {
  std::int64_t dim = 0, heads = 1;
  std::int64_t kv_heads = 0;  ///< grouped heads: heads / kv_heads queries share a key and a value; 0: as many as heads
  bool causal = false;        ///< a token sees itself and what came before
  double dropout = 0;         ///< on the attention weights
  bool bias = true;
  bool composed = false;  ///< matmul, softmax, matmul as separate ops, each under the policy and attributable
};

/// Self-attention (Vaswani et al., 2017) of x (B, T, dim) -> (B, T, dim): out(softmax(q k^T / sqrt(D) + mask) v), D =
/// dim / heads, for each head. Parameters at query|key|value|out.
///
/// query, key and value of a sequence are one op, `projections` at the attention's own path (ops::Projections), which
/// reads the three weights in place where an optimizer holds them. They are three `linear` at query|key|value in the
/// composed form, behind a cache, in 8 bits (each has its history), and where an override of the policy names one of
/// them (`*.key`, `linear`) and says something else than is said of the attention's `projections`.
class MultiHeadAttention : public Module {
 public:
  explicit MultiHeadAttention(const MultiHeadAttentionOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "MultiHeadAttention"; }
  Variable forward(const Variable& x) override;

  using Module::operator();
  /// The next T tokens behind those of `cache`, which grows by them.
  Variable operator()(const Variable& x, AttentionCache& cache);
  /// With an additive mask that broadcasts to (B, heads, T, T): 0 where a token may look, -inf where not. A row that is
  /// masked whole gives 0 in the one op and NaN in the composed form, where it is a softmax over nothing.
  Variable operator()(const Variable& x, const Variable& mask);

  const MultiHeadAttentionOptions& options() const { return options_; }

  Linear query, key, value, out;

 private:
  Variable attend_to_itself(const Variable& x, const Variable& mask);
  /// Whether one op may stand for query, key and value.
  bool projects_at_once() const;
  /// k and v left out: q holds all three.
  Variable attend(const Variable& q, const Variable& k, const Variable& v, const Variable& mask);
  Variable attend_composed(const Variable& q, const Variable& k, const Variable& v, const Variable& mask);

  /// (T, S) on `like`'s device in its dtype: -inf where key j lies behind the last of the S keys that query i of the
  /// last T may see. Made once for these, so that a step copies nothing from the host.
  const Tensor& causal_mask(std::int64_t queries, std::int64_t keys, const Variable& like);

  MultiHeadAttentionOptions options_;
  Tensor causal_mask_;
};

}  // namespace binade::nn
