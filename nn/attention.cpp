#include "binade/nn/attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "binade/autograd/functions/comparison.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/error.h"
#include "binade/core/precision.h"
#include "binade/core/step_context.h"

namespace binade::nn {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kMost = std::int64_t{1} << 30;          // largest number of heads and width of a head
constexpr std::int64_t kMostElements = std::int64_t{1} << 31;  // largest mask for window and ALiBi
constexpr std::int64_t kMostSlopes = 65536;

std::int64_t positive_or(std::int64_t given, std::int64_t usual) { return given > 0 ? given : usual; }
std::int64_t kv_heads_of(const MultiHeadAttentionOptions& o) { return positive_or(o.kv_heads, o.heads); }
std::int64_t depth_of(const MultiHeadAttentionOptions& o) { return positive_or(o.head_dim, o.dim / o.heads); }
std::int64_t value_depth_of(const MultiHeadAttentionOptions& o) { return positive_or(o.value_head_dim, depth_of(o)); }
bool makes_all_of_x(const MultiHeadAttentionOptions& o) {
  return positive_or(o.key_dim, o.dim) == o.dim && positive_or(o.value_dim, o.dim) == o.dim;
}

/// Returns the options after checking them. Called before they are used as divisors.
const MultiHeadAttentionOptions& checked(const MultiHeadAttentionOptions& o) {
  const auto is_count = [](std::int64_t n) { return n >= 0 && n <= kMost; };
  check<ArgumentError>(o.dim > 0 && o.heads > 0 && o.heads <= kMost && (o.head_dim > 0 || o.dim % o.heads == 0),
                       "MultiHeadAttention: wanted dim in equal heads, got dim {} and {} heads", o.dim, o.heads);
  check<ArgumentError>(kv_heads_of(o) <= o.heads && o.heads % kv_heads_of(o) == 0,
                       "MultiHeadAttention: wanted heads in equal groups for kv_heads, got {} heads and {} kv_heads",
                       o.heads, o.kv_heads);
  check<ArgumentError>(o.dropout >= 0 && o.dropout < 1, "MultiHeadAttention: wanted dropout in [0, 1), got {}",
                       o.dropout);
  check<ArgumentError>(is_count(o.head_dim) && is_count(o.value_head_dim) && o.key_dim >= 0 && o.value_dim >= 0,
                       "MultiHeadAttention: wanted widths from 0 on (0: the usual one), at most 2^30 for a head, got "
                       "key_dim {}, value_dim {}, head_dim {}, value_head_dim {}",
                       o.key_dim, o.value_dim, o.head_dim, o.value_head_dim);
  check<ArgumentError>(o.window >= 0 && o.softcap >= 0 && std::isfinite(o.softcap),
                       "MultiHeadAttention: wanted window and softcap of 0 (none) or more, got {} and {}", o.window,
                       o.softcap);
  if (o.rotary) {
    const std::int64_t width = positive_or(o.rotary->width, depth_of(o));
    check<ArgumentError>(
        o.rotary->width >= 0 && width % 2 == 0 && width <= depth_of(o) && o.rotary->base > 0 &&
            std::isfinite(o.rotary->base),
        "MultiHeadAttention: wanted a rotary width that is even and at most that of a head, and a base above 0, got "
        "width {}, heads of {} and base {}",
        width, depth_of(o), o.rotary->base);
  }
  return o;
}

/// Returns the mask with rank 4: (T, S) becomes (1, 1, T, S), and (H, T, S) becomes (1, H, T, S).
Variable with_rank_4(const Variable& mask) {
  std::vector<std::int64_t> dims(static_cast<std::size_t>(std::max(0, 4 - mask.value().rank())), 1);
  dims.insert(dims.end(), mask.shape().dims().begin(), mask.shape().dims().end());
  return reshape(mask, std::move(dims));
}

/// True if backward computes a gradient of the mask.
bool is_learned(const Variable& mask) { return mask.requires_grad() && grad_enabled(); }

/// Returns a mask of integers as bool, others as they are.
Variable as_bool_mask(const Variable& mask) {
  return is_floating(mask.dtype()) || mask.dtype() == DType::boolean ? mask : mask != 0;
}

/// Returns what a mask adds to the logits: 0 for true and -inf for false, or a floating mask itself.
Variable additive(const Variable& mask) {
  if (mask.dtype() != DType::boolean) return mask;
  return where(mask, Tensor::scalar(0, DType::f32, mask.device()), Tensor::scalar(kHidden, DType::f32, mask.device()));
}

}  // namespace

std::vector<double> alibi_slopes(std::int64_t heads) {
  check<ArgumentError>(heads > 0 && heads <= kMostSlopes, "alibi_slopes: wanted 1 to {} heads, got {}", kMostSlopes,
                       heads);
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  std::vector<double> slopes;
  for (std::int64_t i = 1; i <= power; ++i)
    slopes.push_back(std::exp2(-8 * static_cast<double>(i) / static_cast<double>(power)));
  for (std::int64_t i = 1; std::ssize(slopes) < heads; i += 2)
    slopes.push_back(std::exp2(-4 * static_cast<double>(i) / static_cast<double>(power)));
  return slopes;
}

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionOptions& o)
    : query({.in = checked(o).dim, .out = depth_of(o) * o.heads, .bias = o.bias}),
      key({.in = positive_or(o.key_dim, o.dim), .out = depth_of(o) * kv_heads_of(o), .bias = o.bias}),
      value({.in = positive_or(o.value_dim, o.dim), .out = value_depth_of(o) * kv_heads_of(o), .bias = o.bias}),
      out({.in = value_depth_of(o) * o.heads, .out = o.dim, .bias = o.bias}),
      options_(o) {}

void MultiHeadAttention::visit(Visitor& v) {
  v("query", query);
  v("key", key);
  v("value", value);
  v("out", out);
}

Variable MultiHeadAttention::forward(const Variable& x) { return attend_to_itself(x, {}); }

Variable MultiHeadAttention::operator()(const Variable& x, const AttentionMasks& masks) {
  const ModuleScope scope(*this);
  return attend_to_itself(x, masks);
}

Variable MultiHeadAttention::attend_to_itself(const Variable& x, const AttentionMasks& masks) {
  check<ArgumentError>(makes_all_of_x(options_),
                       "{}: wanted keys of width {} and values of width {} beside x of width {}, got x alone; call "
                       "attention(x, keys, values)",
                       where(kind()), positive_or(options_.key_dim, options_.dim),
                       positive_or(options_.value_dim, options_.dim), options_.dim);
  if (projects_at_once() && !is_learned(masks.mask))
    return out(attend(projections(x, {query.weight, key.weight, value.weight}, {query.bias, key.bias, value.bias}), {},
                      {}, masks));
  // Computed before the call of attend(): the compiler may evaluate arguments in any order, and the order on the tape
  // must be fixed.
  const Variable v = value(x), k = rotated(key(x), kv_heads_of(options_), 0), q = rotated(query(x), options_.heads, 0);
  return out(attend(q, k, v, masks));
}

Variable MultiHeadAttention::operator()(const Variable& x, AttentionCache& cache, const AttentionMasks& masks) {
  const ModuleScope scope(*this);
  const std::int64_t begin = cache.length();
  const Variable k = rotated(key(x), kv_heads_of(options_), begin), v = value(x);
  AttentionCache longer{cache.key.defined() ? concat({cache.key, k}, 1) : k,
                        cache.value.defined() ? concat({cache.value, v}, 1) : v};
  Variable y = out(attend(rotated(query(x), options_.heads, begin), longer.key, longer.value, masks));
  cache = std::move(longer);  // last, so that a call that throws leaves it as it was
  return y;
}

Variable MultiHeadAttention::operator()(const Variable& x, const Variable& keys, const Variable& values,
                                        const AttentionMasks& masks) {
  const ModuleScope scope(*this);
  check<ShapeError>(x.value().rank() == 3 && keys.value().rank() == 3 && values.value().rank() == 3 &&
                        keys.dim(1) == values.dim(1),
                    "{}: wanted x (B, T, dim), keys (B, S, key_dim) and values (B, S, value_dim), got {}, {} and {}",
                    where(kind()), x.shape(), keys.shape(), values.shape());
  const std::int64_t ahead = keys.dim(1) - x.dim(1);  // position of the first query: the last query is at the last key
  const Variable v = value(values), k = rotated(key(keys), kv_heads_of(options_), std::max<std::int64_t>(0, -ahead)),
                 q = rotated(query(x), options_.heads, std::max<std::int64_t>(0, ahead));
  return out(attend(q, k, v, masks));
}

AttentionCache MultiHeadAttention::cache_of(const Variable& keys, const Variable& values) {
  const ModuleScope scope(*this);
  const Variable v = value(values);
  return {rotated(key(keys), kv_heads_of(options_), 0), v};
}

Variable MultiHeadAttention::attend_to(const Variable& x, const AttentionCache& cache, const AttentionMasks& masks) {
  const ModuleScope scope(*this);
  check<ShapeError>(x.value().rank() == 3, "{}: wanted x (B, T, dim), got {}", where(kind()), x.shape());
  check<ArgumentError>(cache.key.defined() && cache.value.defined(),
                       "{}: wanted keys and values, got an empty cache; make it with cache_of()", where(kind()));
  check<ShapeError>(!options_.rotary || x.dim(1) <= cache.length(),
                    "{}: wanted at most as many queries as keys, because rotary positions of the keys begin at 0, got "
                    "{} queries and {} keys; call attention(x, keys, values)",
                    where(kind()), x.dim(1), cache.length());
  const std::int64_t begin = std::max<std::int64_t>(0, cache.length() - x.dim(1));
  return out(attend(rotated(query(x), options_.heads, begin), cache.key, cache.value, masks));
}

bool MultiHeadAttention::projects_at_once() const {
  if (options_.composed || options_.rotary || options_.softcap > 0 || value_depth_of(options_) != depth_of(options_))
    return false;
  const PrecisionPolicy& policy = current_policy();
  const auto together = policy.override_for(step_context().module_path, ops::Projections::info.name);
  return std::ranges::all_of(std::array{&query, &key, &value}, [&](const Linear* part) {
    if (part->has_hooks()) return false;  // hooks of a layer run only if the layer is called
    const auto apart = policy.override_for(part->path(), ops::Linear::info.name);
    const bool as_together = !apart || apart == together, biased = part->bias.defined() == query.bias.defined();
    return as_together && biased && !reads_fp8(policy, part->path(), ops::Linear::info.name);
  });
}

Variable MultiHeadAttention::rotated(const Variable& x, std::int64_t heads, std::int64_t begin) {
  if (!options_.rotary || x.value().numel() == 0) return x;
  const std::int64_t batch = x.dim(0), tokens = x.dim(1), depth = depth_of(options_),
                     width = positive_or(options_.rotary->width, depth);
  // One table serves all positions below a power of two, so that few tables are made while a text is generated.
  const auto positions = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(begin + tokens)));
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor all = rotary_tables_.get({2, positions, width / 2}, dtype, x.device(), [&] {
    return rotary_table(positions, width, options_.rotary->base, 0, dtype, x.device());
  });
  const Variable table = narrow(all, 1, begin, tokens);
  return reshape(rotary(reshape(x, {batch, tokens, heads, depth}), table, options_.rotary->pairs),
                 {batch, tokens, heads * depth});
}

Variable MultiHeadAttention::joined(const AttentionMasks& masks, const Variable& q, std::int64_t keys) {
  std::vector<Variable> parts;
  if (masks.mask.defined()) parts.push_back(as_bool_mask(with_rank_4(masks.mask)));
  if (masks.key_mask.defined()) {
    const Variable& mask = masks.key_mask;
    check<ShapeError>(mask.value().rank() == 2 && mask.dim(1) == keys && !is_floating(mask.dtype()),
                      "{}: wanted key_mask (B, S) of bool or whole numbers with S {}, got {} {}", where(kind()), keys,
                      name_of(mask.dtype()), mask.shape());
    parts.push_back(as_bool_mask(reshape(mask, {mask.dim(0), 1, 1, keys})));
  }
  if ((options_.alibi || options_.window > 0) && q.value().numel() > 0 && keys > 0)
    parts.push_back(position_bias(q.dim(1), keys, q.dtype() == DType::f64 ? DType::f64 : DType::f32, q.device()));
  if (parts.empty()) return {};
  if (parts.size() == 1) {
    Variable& only = parts.front();
    if (only.dim(3) == 1 && keys != 1) only = expand(only, {only.dim(0), only.dim(1), only.dim(2), keys});
    return only;
  }
  Variable sum = additive(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) sum = sum + additive(parts[i]);
  return sum;
}

Tensor MultiHeadAttention::position_bias(std::int64_t queries, std::int64_t keys, DType dtype, Device device) {
  const MultiHeadAttentionOptions& o = options_;
  // With causal attention, ALiBi needs only one row for all queries, with distances from the last key. In the row of a
  // query these differ from the true distances by one number, which softmax ignores. Logits are then rounded like
  // numbers of size slope * keys.
  const bool by_query = o.window > 0 || !o.causal;
  const std::int64_t heads = o.alibi ? o.heads : 1, rows = by_query ? queries : 1;
  check<ArgumentError>(rows <= kMostElements / heads / keys,
                       "{}: window and alibi need a mask of {} heads, {} queries and {} keys, wanted at most 2^31 "
                       "elements; use shorter sequences",
                       where(kind()), heads, rows, keys);
  return position_biases_.get({1, heads, rows, keys}, dtype, device, [&] {
    const std::vector<double> slopes = o.alibi ? alibi_slopes(heads) : std::vector<double>{0};
    std::vector<double> bias;
    for (const double slope : slopes)
      for (std::int64_t t = 0; t < rows; ++t)
        for (std::int64_t s = 0; s < keys; ++s) {
          const std::int64_t position = keys - rows + t, distance = std::abs(position - s);
          const bool hidden = o.window > 0 && distance >= o.window;
          bias.push_back(hidden ? kHidden : -slope * static_cast<double>(distance));
        }
    return Tensor::from(bias, {1, heads, rows, keys}).to(dtype).to(device);
  });
}

Variable MultiHeadAttention::attend(const Variable& q, const Variable& k, const Variable& v,
                                    const AttentionMasks& masks) {
  const MultiHeadAttentionOptions& o = options_;
  check<ShapeError>(q.value().rank() == 3, "{}: wanted x (B, T, {}), got one of rank {}", where(kind()), o.dim,
                    q.value().rank());
  const Variable mask = joined(masks, q, k.defined() ? k.dim(1) : q.dim(1));
  if (k.defined() && (o.composed || o.softcap > 0 || value_depth_of(o) != depth_of(o) || is_learned(masks.mask)))
    return attend_composed(q, k, v, mask);
  const auto dropout_p = static_cast<float>(training() ? o.dropout : 0);
  return attention(q, k, v, {.causal = o.causal, .dropout = dropout_p, .heads = o.heads, .key_heads = kv_heads_of(o)},
                   mask);
}

Tensor MultiHeadAttention::causal_mask(std::int64_t queries, std::int64_t keys, const Variable& like) {
  return causal_masks_.get({queries, keys}, like.dtype(), like.device(), [&] {
    std::vector<float> mask(static_cast<std::size_t>(queries * keys), 0.0f);
    for (std::int64_t i = 0; i < queries; ++i)
      for (std::int64_t j = std::max<std::int64_t>(0, keys - queries + i + 1); j < keys; ++j)
        mask[static_cast<std::size_t>(i * keys + j)] = kHidden;
    return Tensor::from(mask, {queries, keys}).to(like.dtype()).to(like.device());
  });
}

Variable MultiHeadAttention::attend_composed(const Variable& q, const Variable& k, const Variable& v,
                                             const Variable& mask) {
  const MultiHeadAttentionOptions& o = options_;
  const std::int64_t batch = q.dim(0), queries = q.dim(1), keys = k.dim(1);
  const std::int64_t groups = kv_heads_of(o), shared = o.heads / groups, size = depth_of(o), values = value_depth_of(o);
  // (B, T, heads D) -> (B, groups, heads / groups, T, D): matmul broadcasts the key and value of a group over its
  // queries.
  const Variable qh = permute(reshape(q, {batch, queries, groups, shared, size}), {0, 2, 3, 1, 4});
  const Variable kh = permute(reshape(k, {batch, keys, groups, 1, size}), {0, 2, 3, 1, 4});
  const Variable vh = permute(reshape(v, {batch, keys, groups, 1, values}), {0, 2, 3, 1, 4});
  Variable logits = matmul(qh, kh, {.transpose_b = true}) * (1 / std::sqrt(static_cast<double>(size)));
  if (o.softcap > 0) logits = tanh(logits / o.softcap) * o.softcap;
  if (o.causal && (queries > 1 || keys > 1) && logits.value().numel() > 0)
    logits = logits + causal_mask(queries, keys, logits);
  if (mask.defined())
    logits = reshape(reshape(logits, {batch, o.heads, queries, keys}) + additive(mask),
                     {batch, groups, shared, queries, keys});
  Variable weights = softmax(logits);
  if (training() && o.dropout > 0) weights = dropout(weights, o.dropout);
  const Variable y = permute(matmul(weights, vh), {0, 3, 1, 2, 4});
  return reshape(y, {batch, queries, o.heads * values});
}

}  // namespace binade::nn
