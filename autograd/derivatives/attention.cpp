#include "binade/core/ops/attention.h"

#include <cmath>
#include <limits>

#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"

namespace binade::derivatives {
namespace {

/// The extents of an attention call, and the reshapes between the layouts of its operands.
struct Extents {
  std::int64_t batch, queries, keys, heads, key_heads, depth;

  /// Returns x, (B, N, heads D) or (B, N, heads, D), as (B, heads, N, D).
  Variable heads_first(const Variable& x, std::int64_t n, std::int64_t count) const {
    return permute(reshape(x, {batch, n, count, depth}), {0, 2, 1, 3});
  }
  /// The inverse of heads_first(): returns (B, N, heads D) if `joined`, otherwise (B, N, heads, D).
  Variable tokens_first(const Variable& x, std::int64_t n, std::int64_t count, bool joined) const {
    const Variable tokens = permute(reshape(x, {batch, count, n, depth}), {0, 2, 1, 3});
    return joined ? reshape(tokens, {batch, n, count * depth}) : tokens;
  }
  /// Returns x (B, H, T, columns) as (B, G, H / G T, columns): one matrix for all heads that share a key head.
  /// ungrouped() is the inverse.
  Variable grouped(const Variable& x) const {
    return reshape(x, {batch, key_heads, heads / key_heads * queries, x.dim(-1)});
  }
  Variable ungrouped(const Variable& x) const { return reshape(x, {batch, heads, queries, x.dim(-1)}); }
};

constexpr double kHidden = -1e30;  // exp(kHidden - maximum) is 0; finite, because a row of -infinity gives NaN

/// Returns the sum of the terms that are added to the logits (B, H, T, S): the mask, and kHidden for keys that `causal`
/// hides.
Variable added_to_logits(const Extents& e, const Tensor& mask, bool causal, DType dtype, Device device) {
  Variable added = Tensor::zeros({1, 1, 1, e.keys}, dtype, device);
  if (mask.defined())
    added = clamp(mask.rank() == 2 ? mask.reshape({mask.dim(0), 1, 1, e.keys}) : mask, kHidden,
                  std::numeric_limits<float>::max());
  if (!causal) return added;
  std::vector<double> hidden(static_cast<std::size_t>(e.queries * e.keys));
  for (std::int64_t t = 0; t < e.queries; ++t)
    for (std::int64_t s = 0; s < e.keys; ++s)
      hidden[static_cast<std::size_t>(t * e.keys + s)] = s > t + e.keys - e.queries ? kHidden : 0;
  return added + Tensor::from(hidden, {1, 1, e.queries, e.keys}).to(dtype).to(device);
}

/// Returns the factors of the probabilities, (B, H, T, S): 0 for those that dropout removed in forward, 1 / (1 - p) for
/// the others.
Variable dropout_factors(const RecordedCall& call, const Extents& e, DType dtype, Device device) {
  const float p = call.params<ops::Attention>().dropout;
  Tensor factors = Tensor::empty({e.batch, e.heads, e.queries, e.keys}, dtype, device);
  const Tensor ones = Tensor::full(factors.shape(), 1, dtype, device);
  if (factors.numel() > 0)
    kernels(device).dropout({.x = input(ones),
                             .y = output(factors),
                             .count = factors.numel(),
                             .stream = call.context().rng,
                             .drop = static_cast<std::uint32_t>(std::ceil(static_cast<double>(p) * 0x1p24)),
                             .scale = 1 / (1 - static_cast<double>(p))});
  return factors;
}

Variables attention_gradients(const RecordedCall& call) {
  const auto& p = call.params<ops::Attention>();
  if (call.needs(3)) call.refuse("its mask has no gradient; pass mask.detach()");
  const bool packed = call.described(1).shape.rank() == 0, masked = call.described(3).shape.rank() > 0;
  const Variable first = call.input(0, 2);
  const Tensor saved_mask = masked ? call.saved(packed ? 3 : 5) : Tensor();
  const Tensor none, in[] = {first.value(), packed ? none : call.saved(3), packed ? none : call.saved(4), saved_mask};
  const ops::AttentionCall attention = ops::attention_call(in, p);
  const AttentionArgs& args = attention.args;
  const Extents e{args.batch, args.queries, args.keys, args.heads, args.key_heads, args.depth};
  const std::int64_t width = e.heads * e.depth, key_width = e.key_heads * e.depth;
  const Variable q = e.heads_first(packed ? narrow(first, 2, 0, width) : first, e.queries, e.heads);
  const Variable k = e.heads_first(packed ? narrow(first, 2, width, key_width) : call.input(1, 3), e.keys, e.key_heads);
  const Variable v = e.heads_first(packed ? narrow(first, 2, width + key_width, key_width) : call.input(2, 4), e.keys,
                                   e.key_heads);

  const Variable gy = e.grouped(e.heads_first(cast(call.gy(), args.dtype), e.queries, e.heads));
  const DType sums = accumulate_dtype(args.dtype);
  const Variable added = added_to_logits(e, attention.mask, p.causal, sums, first.device());
  // The log-sum-exp of a row that sees no key is infinite; its probabilities are 0.
  const Variable sees = 1 - clamp(Variable(call.saved(1).reshape({e.batch, e.heads, e.queries, 1})) + kHidden, 0, 1);
  const Variable logits = e.ungrouped(wide_matmul(e.grouped(q), k, {.transpose_b = true})) * args.scale + added;
  const Variable probabilities = softmax(logits) * sees;
  Variable gp = e.ungrouped(wide_matmul(gy, v, {.transpose_b = true})), kept = probabilities;
  if (p.dropout > 0) {
    const Variable factors = dropout_factors(call, e, sums, first.device());
    gp = gp * factors;
    kept = kept * factors;
  }
  const Variable gl = e.grouped(probabilities * (gp - sum(gp * probabilities, {-1}, true)) * args.scale);

  const bool joined = first.value().rank() == 3;
  const Variable gq = e.tokens_first(e.ungrouped(wide_matmul(gl, k)), e.queries, e.heads, joined);
  const Variable gk = e.tokens_first(wide_matmul(gl, e.grouped(q), {.transpose_a = true}), e.keys, e.key_heads, joined);
  const Variable gv = e.tokens_first(wide_matmul(e.grouped(kept), gy, {.transpose_a = true}), e.keys, e.key_heads,
                                     joined);
  if (packed) return {concat({gq, gk, gv}), {}, {}, {}};
  return {gq, gk, gv, {}};
}

constexpr Entry kEntries[] = {{&ops::Attention::info, attention_gradients}};

}  // namespace

std::span<const Entry> derivatives_of_attention() { return kEntries; }

}  // namespace binade::derivatives
