#pragma once

#include "binade/core/kernels/attention.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/tensor.h"
#include "binade/core/ops/op.h"

namespace binade::ops {

/// y[b, t, h] = sum over s of dropout(p[b, h, t, s]) v[b, s, g],  p = softmax over s of (scale q[b, t, h] . k[b, s, g]
/// + mask), g = h / (H / G): each of the G key-value heads is used by H / G neighboring query heads.
///
///   q (B, T, H, D), k and v (B, S, G, D), y (B, T, H, D); or, with `heads` given,
///   q (B, T, H D), k and v (B, S, G D), y (B, T, H D), where q, k and v may be channel slices of one tensor; or
///   q (B, T, (H + 2 G) D) alone, which has the channels of q, k and v side by side; y (B, T, H D), one gradient.
///   All three forms give the same bits. mask, optional:
///     (B, S)       bool: true for visible keys; or f32, added to the logits
///     (B, H, T, S) bool or f32 with the same meaning; each of the first three extents may be 1
///
/// With `causal`, query t sees keys s <= t + S - T. Thus the last query sees all keys, as generation with cached keys
/// requires. A query that sees no key has y = 0 and gradients of 0. q, k and v must have one floating dtype; the policy
/// does not cast the mask. Logits, softmax and sums are f32 (f64 for f64); with 16-bit inputs the probabilities are
/// rounded to 16 bits before they are multiplied by v, as on a Tensor Core, and y is rounded once. Memory grows with S,
/// not with T S (if cuDNN computes backward, it uses up to 1 GiB more). NaN propagates, also from keys that a mask
/// hides, because the mask is added, but not from keys that `causal` hides. cuDNN multiplies the values of such keys by
/// 0, so that a NaN or infinity in them can make more rows NaN.
///
/// Dropout: word ((b H + h) T + t) S + s of the call's random stream decides whether element (b, h, t, s) of p is kept.
/// Backward recomputes p from q, k and the saved log-sum-exp: gv = p^T gy, gl = p (gy v^T - sum gy y), gq = scale gl k,
/// gk = scale gl^T q. The mask has no gradient. Saves y, the log-sum-exp, q, k, v and the mask.
struct Attention {
  struct Params {
    bool causal = false;
    float dropout = 0;
    double scale = 0;            ///< 0: 1 / sqrt(D), rounded to the computing type
    std::int64_t heads = 0;      ///< H, required for inputs of rank 3
    std::int64_t key_heads = 0;  ///< G for inputs of rank 3; 0: equal to `heads`
  };
  static constexpr OpInfo info{.name = "attention",
                               .inputs = "q, k?, v?, mask?",
                               .precision = PrecisionClass::kLow,
                               .numerics = {.non_finite = NonFinite::kMasks},
                               .policy_inputs = 0b0111,
                               .family = OpFamily::kAttention,
                               .observed = Observed::kByKernels,
                               .mask_inputs = 0b1000};

  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params& p);
  static void backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p);
};

/// Returns the logits, scale q . k + mask for each key, of `count` evenly spread rows (b, h, t), or of all rows if
/// there are fewer. The logit of a key that the row does not see is -inf. Used by telemetry probes.
std::vector<std::vector<double>> attention_logits(std::span<const Tensor> in, const Attention::Params& p,
                                                  std::int64_t count);

/// The kernel arguments of an attention call, without the tensors of its results.
struct AttentionCall {
  AttentionArgs args{};
  Tensor mask{};  ///< additive mask that `args` points to; undefined without a mask
};
/// Checks the inputs and returns the arguments. Does not wait for the device.
AttentionCall attention_call(std::span<const Tensor> in, const Attention::Params& p);

}  // namespace binade::ops
