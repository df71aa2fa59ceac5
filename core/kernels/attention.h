#pragma once

#include <cstdint>

#include "binade/core/dtype.h"
#include "binade/core/host_device.h"
#include "binade/core/random.h"

namespace binade {

/// Attention of `queries` over `keys`, with `heads` heads of `depth` values. Head h reads key-value head h / (heads /
/// key_heads).
///
///   l[t, s] = scale q[t] . k[s] + mask;   p = softmax over s;   y[t] = sum over s of dropout(p[t, s]) v[s]
///
/// Keys that `causal` hides are not read, so a NaN in one does not reach rows that may not attend to it. A mask is
/// added to the logits, so a NaN stays a NaN. If all logits of a row are -inf although no mask hides them, the row's
/// result is NaN.
///
/// Element (b, t, h, d) of a tensor is at (b * n + t) * token + h * head + d, where n is `queries` or `keys`, and
/// `token` and `head` are the tensor's strides.
struct AttentionArgs {
  std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, key_heads = 0, depth = 0;
  double scale = 1;          ///< rounded to the type in which the logits are computed
  bool causal = false;       ///< query t attends to keys s <= t + keys - queries
  DType dtype = DType::f32;  ///< dtype of q, k, v, y and their gradients

  struct Tokens {
    const void* data = nullptr;
    std::int64_t token = 0, head = 0;  ///< elements between tokens, elements between heads
  };
  Tokens q, k, v;

  /// Mask that is added to the logits; -inf hides a key. f32 (f64 for f64), like the logits. Null: no mask. Strides are
  /// in elements, 0 for broadcast dimensions; keys are contiguous.
  const void* mask = nullptr;
  std::int64_t mask_batch = 0, mask_head = 0, mask_query = 0;

  /// Returns the number of keys that query t attends to.
  BINADE_HD std::int64_t visible(std::int64_t t) const {
    const std::int64_t count = causal ? t + 1 + keys - queries : keys;
    return count < 0 ? 0 : count > keys ? keys : count;
  }
  /// Returns the mask's row, of type C, for query t; null without a mask.
  template <class C>
  BINADE_HD const C* mask_row(std::int64_t b, std::int64_t h, std::int64_t t) const {
    return mask == nullptr ? nullptr : static_cast<const C*>(mask) + b * mask_batch + h * mask_head + t * mask_query;
  }

  float dropout = 0;  ///< share of the probabilities p that is set to 0; the rest is divided by 1 - dropout
  RandomStream rng;   ///< word ((b heads + h) queries + t) keys + s decides whether p[b, h, t, s] is set to 0
};

/// Computes y and, for backward, each row's log-sum-exp: lse (batch, heads, queries), f32 (f64 for f64), +inf for a row
/// without visible keys, whose y is 0.
struct AttentionForward {
  AttentionArgs args;
  void* y = nullptr;
  std::int64_t y_token = 0, y_head = 0;  ///< elements between tokens and between heads of y
  void* lse = nullptr;                   ///< log-sum-exp of each query's logits; null: not stored
};

/// Computes the gradients of q, k and v from y, its gradient gy, and the log-sum-exp of forward.
struct AttentionBackward {
  /// A gradient, with strides as in AttentionArgs::Tokens; null: not wanted.
  struct Gradient {
    void* data = nullptr;
    std::int64_t token = 0, head = 0;
  };

  AttentionArgs args;
  AttentionArgs::Tokens y, gy;
  const void* lse = nullptr;
  Gradient gq{}, gk{}, gv{};
};

namespace cpu {

/// Attention of one kernel level.
struct AttentionKernels {
  void (*forward)(const AttentionForward&);
  void (*backward)(const AttentionBackward&);
};

}  // namespace cpu
}  // namespace binade
