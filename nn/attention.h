#pragma once

#include <concepts>
#include <optional>
#include <vector>

#include "binade/autograd/functions/attention.h"
#include "binade/nn/constant_cache.h"
#include "binade/nn/dropout.h"
#include "binade/nn/linear.h"

namespace binade::nn {

/// The keys and values of the tokens so far, for the generation of text. A text begins with an empty cache, and each
/// call of the attention appends the keys and values of the new tokens. Rotary positions are already applied to the
/// keys.
struct AttentionCache {
  Variable key{}, value{};  ///< (B, S, kv_heads head_dim) and (B, S, kv_heads value_head_dim) for S tokens
  std::int64_t length() const { return key.defined() ? key.dim(1) : 0; }
};

/// The masks of one call of an attention; both may be given.
struct AttentionMasks {
  /// Broadcasts to (B, heads, T, S). Floating: added to the logits, -inf for hidden keys; bool or integers: true, or
  /// not 0, for visible keys.
  Variable mask{};
  Variable key_mask{};  ///< (B, S), bool or u8: true for keys that are visible to all queries of the sample
};

/// Rotary positions of queries and keys: see rotary().
struct RotaryOptions {
  double base = 10000;
  std::int64_t width = 0;  ///< number of features of each head that are rotated, even; 0: all
  RotaryPairs pairs = RotaryPairs::kHalves;
};

/// Options of MultiHeadAttention.
struct MultiHeadAttentionOptions {
  std::int64_t dim = 0, heads = 1;  ///< dim: width of queries and results
  std::int64_t kv_heads = 0;        ///< key-value heads; heads / kv_heads query heads share one (0: equal to `heads`)
  bool causal = false;              ///< true if a token sees only itself and earlier tokens
  double dropout = 0;               ///< probability that an attention weight is dropped
  bool bias = true;
  /// True: computed by separate ops (matmul, softmax, matmul), which a policy and the diagnosis can address separately
  bool composed = false;
  std::int64_t key_dim = 0, value_dim = 0;  ///< widths of the inputs that keys and values are made of (0: dim)
  std::int64_t head_dim = 0;                ///< width of a head of queries and keys (0: dim / heads)
  std::int64_t value_head_dim = 0;          ///< width of a head of values (0: head_dim)
  std::optional<RotaryOptions> rotary{};    ///< rotates queries and keys by their positions
  bool alibi = false;       ///< true: adds ALiBi (Press et al., 2022), -slope |distance|, to the logits of each head
  std::int64_t window = 0;  ///< a token sees only tokens at a distance below `window` (0: no limit)
  double softcap = 0;       ///< c > 0: logits become c tanh(logits / c) before masks are added (Gemma 2); 0: unchanged
};

/// Computes attention (Vaswani et al., 2017) of queries x (B, T, dim) on keys and values (B, S, …) -> (B, T, dim): for
/// each head softmax(q k^T / sqrt(head_dim) + masks) v, and then the layer `out` of all heads. The parameters are in
/// the layers query, key, value and out. Called with x alone, keys and values are computed from x too (self-attention).
///
/// Positions: the last query has the position of the last key, as in a sequence whose first tokens are cached.
/// `causal`, `window`, `alibi` and `rotary` follow this rule, also with separate keys. Unlike in
/// torch.nn.MultiheadAttention, a bool mask is true for visible keys.
///
/// The fused op `attention` (ops::Attention) computes all of this except three things: `softcap`, values of another
/// head width, and a mask that needs a gradient (a learned bias). In these cases, and with `composed`, separate ops
/// compute it, whose memory grows with T S. `window` and ALiBi are added to the logits as a mask: (T, S) for `window`,
/// (heads, T, S) with ALiBi. For ALiBi with `causal` and no `window`, the mask is (heads, S), with distances from the
/// last key, so an f32 logit is rounded like a number of size slope * S. For a query without visible keys, the result
/// of the heads is 0 in the fused op, and NaN if composed, like the softmax of a row of -inf.
///
/// In self-attention without `rotary`, one op, `projections` (ops::Projections), computes query, key and value. It has
/// the module path of the attention, and reads the three weights in place if an optimizer stores them side by side.
/// Three `linear` ops, with the paths of the members query, key and value, replace it in these cases: keys or values
/// have other widths; `composed`, `softcap`, a learned mask or a cache; one of the three layers has hooks; the layers
/// multiply in 8 bits (each has its own history of magnitudes); a policy override for one of the three (`*.key`,
/// `linear`) differs from that for `projections`.
class MultiHeadAttention : public Module {
 public:
  explicit MultiHeadAttention(const MultiHeadAttentionOptions& options);
  void visit(Visitor& v) override;
  std::string kind() const override { return "MultiHeadAttention"; }
  Variable forward(const Variable& x) override;

  using Module::operator();
  /// Processes the T tokens that follow those in `cache`, and appends their keys and values to it.
  Variable operator()(const Variable& x, AttentionCache& cache, const AttentionMasks& masks = {});
  /// Self-attention with masks.
  Variable operator()(const Variable& x, const AttentionMasks& masks);
  template <std::convertible_to<Variable> Mask>
  Variable operator()(const Variable& x, const Mask& mask) {
    return (*this)(x, AttentionMasks{.mask = mask});
  }
  /// Attention on other keys (B, S, key_dim) and values (B, S, value_dim) (cross attention).
  Variable operator()(const Variable& x, const Variable& keys, const Variable& values,
                      const AttentionMasks& masks = {});
  /// Cross attention in two steps, for several calls with the same keys and values: cache_of() projects them once, and
  /// attend_to() attends to them. Positions of rotary keys begin at 0, so there may not be more queries than keys.
  AttentionCache cache_of(const Variable& keys, const Variable& values);
  Variable attend_to(const Variable& x, const AttentionCache& cache, const AttentionMasks& masks = {});

  const MultiHeadAttentionOptions& options() const { return options_; }

  Linear query, key, value, out;

 private:
  Variable attend_to_itself(const Variable& x, const AttentionMasks& masks);
  /// True if one op may compute query, key and value.
  bool projects_at_once() const;
  /// Rotates the heads of x (B, T, heads head_dim), whose positions begin at `begin`; x itself without rotary.
  Variable rotated(const Variable& x, std::int64_t heads, std::int64_t begin);
  /// Computes the attention without the output layer. If k and v are undefined, q is the result of `projections`, which
  /// contains all three.
  Variable attend(const Variable& q, const Variable& k, const Variable& v, const AttentionMasks& masks);
  Variable attend_composed(const Variable& q, const Variable& k, const Variable& v, const Variable& mask);

  /// Returns the masks of the call, the window and ALiBi as one mask of rank 4; undefined if there are none.
  Variable joined(const AttentionMasks& masks, const Variable& q, std::int64_t keys);
  /// Returns the mask of window and ALiBi, which is added to the logits: (1, 1 or heads, 1 or queries, keys).
  Tensor position_bias(std::int64_t queries, std::int64_t keys, DType dtype, Device device);
  /// Returns a mask (queries, keys) with the dtype and device of `like`. The queries are the last ones of the sequence;
  /// keys after a query have -inf, all others 0.
  Tensor causal_mask(std::int64_t queries, std::int64_t keys, const Variable& like);

  MultiHeadAttentionOptions options_;
  ConstantCache causal_masks_, position_biases_, rotary_tables_;
};

/// Returns the slopes of ALiBi: 2^(-8 i / heads) for head i = 1, …, heads. If heads is not a power of two: the
/// slopes of the next smaller power of two, then every other slope of the next larger one (Press et al., 2022).
std::vector<double> alibi_slopes(std::int64_t heads);

}  // namespace binade::nn
