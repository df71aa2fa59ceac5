#include "binade/nn/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "binade/autograd/functions/attention.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/error.h"
#include "binade/core/precision.h"
#include "binade/core/step_context.h"

namespace binade::nn {
namespace {

std::int64_t kv_heads_of(const MultiHeadAttentionOptions& o) { return o.kv_heads > 0 ? o.kv_heads : o.heads; }

/// Returns the options after checking them. Called before they are used as divisors.
const MultiHeadAttentionOptions& checked(const MultiHeadAttentionOptions& o) {
  check<ArgumentError>(o.dim > 0 && o.heads > 0 && o.dim % o.heads == 0,
                       "MultiHeadAttention: wanted dim in equal heads, got dim {} and {} heads", o.dim, o.heads);
  check<ArgumentError>(kv_heads_of(o) <= o.heads && o.heads % kv_heads_of(o) == 0,
                       "MultiHeadAttention: wanted heads in equal groups for kv_heads, got {} heads and {} kv_heads",
                       o.heads, o.kv_heads);
  check<ArgumentError>(o.dropout >= 0 && o.dropout < 1, "MultiHeadAttention: wanted dropout in [0, 1), got {}",
                       o.dropout);
  return o;
}

LinearOptions projection(const MultiHeadAttentionOptions& o, std::int64_t heads) {
  return {.in = checked(o).dim, .out = o.dim / o.heads * heads, .bias = o.bias};
}

/// Returns the mask with rank 4: (T, S) becomes (1, 1, T, S), and (H, T, S) becomes (1, H, T, S).
Variable with_rank_4(const Variable& mask) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(std::max(0, 4 - mask.value().rank())), 1);
  dims.insert(dims.end(), mask.shape().dims().begin(), mask.shape().dims().end());
  return reshape(mask, std::move(dims));
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionOptions& o)
    : query(projection(o, o.heads)),
      key(projection(o, kv_heads_of(o))),
      value(projection(o, kv_heads_of(o))),
      out({.in = o.dim, .out = o.dim, .bias = o.bias}),
      options_(o) {}

void MultiHeadAttention::visit(Visitor& v) {
  v("query", query);
  v("key", key);
  v("value", value);
  v("out", out);
}

Variable MultiHeadAttention::forward(const Variable& x) { return attend_to_itself(x, Variable()); }

Variable MultiHeadAttention::operator()(const Variable& x, const Variable& mask) {
  const ModuleScope scope(*this);
  return attend_to_itself(x, mask);
}

Variable MultiHeadAttention::attend_to_itself(const Variable& x, const Variable& mask) {
  if (projects_at_once())
    return out(attend(projections(x, {query.weight, key.weight, value.weight}, {query.bias, key.bias, value.bias}), {},
                      {}, mask));
  // Computed before the call of attend(): the compiler may evaluate arguments in any order, and the order on the tape
  // must be fixed.
  const Variable v = value(x), k = key(x), q = query(x);
  return out(attend(q, k, v, mask));
}

Variable MultiHeadAttention::operator()(const Variable& x, AttentionCache& cache) {
  const ModuleScope scope(*this);
  const Variable k = key(x), v = value(x);
  cache.key = cache.key.defined() ? concat({cache.key, k}, 1) : k;
  cache.value = cache.value.defined() ? concat({cache.value, v}, 1) : v;
  return out(attend(query(x), cache.key, cache.value, Variable()));
}

bool MultiHeadAttention::projects_at_once() const {
  if (options_.composed) return false;
  const PrecisionPolicy& policy = current_policy();
  const auto together = policy.override_for(step_context().module_path, ops::Projections::info.name);
  return std::ranges::all_of(std::array{&query, &key, &value}, [&](const Linear* part) {
    if (part->has_hooks()) return false;  // hooks of a layer run only if the layer is called
    const auto apart = policy.override_for(part->path(), ops::Linear::info.name);
    const bool as_together = !apart || apart == together, biased = part->bias.defined() == query.bias.defined();
    return as_together && biased && !reads_fp8(policy, part->path(), ops::Linear::info.name);
  });
}

Variable MultiHeadAttention::attend(const Variable& q, const Variable& k, const Variable& v, const Variable& mask) {
  if (options_.composed) return attend_composed(q, k, v, mask);
  const auto dropout_p = static_cast<float>(training() ? options_.dropout : 0);
  return attention(
      q, k, v,
      {.causal = options_.causal, .dropout = dropout_p, .heads = options_.heads, .key_heads = kv_heads_of(options_)},
      mask.defined() ? with_rank_4(mask) : mask);
}

Tensor MultiHeadAttention::causal_mask(std::int64_t queries, std::int64_t keys, const Variable& like) {
  return causal_masks_.get({queries, keys}, like.dtype(), like.device(), [&] {
    std::vector<float> mask(static_cast<std::size_t>(queries * keys), 0.0f);
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t j = std::max<std::int64_t>(0, keys - queries + i + 1); j < keys; ++j)
        mask[static_cast<std::size_t>(i * keys + j)] = -std::numeric_limits<float>::infinity();
    return Tensor::from(mask, {queries, keys}).to(like.dtype()).to(like.device());
  });
}

Variable MultiHeadAttention::attend_composed(const Variable& q, const Variable& k, const Variable& v,
                                             const Variable& mask) {
  const std::int64_t batch = q.dim(0), queries = q.dim(1), keys = k.dim(1);
  const std::int64_t groups = kv_heads_of(options_), shared = options_.heads / groups,
                     size = options_.dim / options_.heads;
  // (B, T, heads D) -> (B, groups, heads / groups, T, D): matmul broadcasts the key and value of a group over its
  // queries.
  const Variable qh = permute(reshape(q, {batch, queries, groups, shared, size}), {0, 2, 3, 1, 4});
  const Variable kh = permute(reshape(k, {batch, keys, groups, 1, size}), {0, 2, 3, 1, 4});
  const Variable vh = permute(reshape(v, {batch, keys, groups, 1, size}), {0, 2, 3, 1, 4});
  Variable logits = matmul(qh, kh, {.transpose_b = true}) * (1 / std::sqrt(static_cast<double>(size)));
  if (options_.causal && (queries > 1 || keys > 1) && logits.value().numel() > 0)
    logits = logits + causal_mask(queries, keys, logits);
  if (mask.defined())
    logits = reshape(reshape(logits, {batch, options_.heads, queries, keys}) + mask,
                     {batch, groups, shared, queries, keys});
  Variable weights = softmax(logits);
  if (training() && options_.dropout > 0) weights = dropout(weights, options_.dropout);
  const Variable y = permute(matmul(weights, vh), {0, 3, 1, 2, 4});
  return reshape(y, {batch, queries, options_.dim});
}

}  // namespace binade::nn
