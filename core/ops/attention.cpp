#include "binade/core/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "binade/core/kernels/probe.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/input_gradient.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

constexpr const char* kName = "attention";

/// Extents and strides of queries, keys, values or results, a tensor (B, T, H, D) or (B, T, H D).
struct Layout {
  std::int64_t batch, tokens, heads, depth;
  std::int64_t token, head;

  Layout(const Tensor& x, std::int64_t head_count) : batch(x.dim(0)), tokens(x.dim(1)) {
    if (x.rank() == 4) {
      heads = x.dim(2);
      depth = x.dim(3);
      token = heads * x.pitch();
      head = x.pitch();
    } else {
      heads = head_count;
      depth = x.dim(2) / head_count;
      token = x.pitch();
      head = depth;
    }
  }
  AttentionArgs::Tokens tokens_of(const Tensor& x) const { return {x.raw(), token, head}; }
  AttentionBackward::Gradient gradient_in(Tensor& x) const { return {x.mutable_raw(), token, head}; }
};

std::int64_t key_heads(const Attention::Params& p) { return p.key_heads > 0 ? p.key_heads : p.heads; }

/// Queries, keys and values, or their gradients.
struct Tokens {
  Tensor q, k, v;
};

/// Returns q, k and v as channel slices of `all` (B, T, (H + 2 G) D), in which they are side by side.
Tokens channels_of(const Tensor& all, const Attention::Params& p) {
  const std::int64_t depth = all.dim(2) / (p.heads + 2 * key_heads(p));
  const std::int64_t queries = p.heads * depth, keys = key_heads(p) * depth;
  return {all.channel_slice(0, queries), all.channel_slice(queries, keys), all.channel_slice(queries + keys, keys)};
}

/// Returns q, k and v of a call, from three inputs or from one. REQUIRES: the shapes are checked.
Tokens tokens_of(std::span<const Tensor> in, const Attention::Params& p) {
  return in[1].defined() ? Tokens{in[0], in[1], in[2]} : channels_of(in[0], p);
}

/// Throws ShapeError unless `all` can contain q, k and v side by side: (B, T, (H + 2 G) D).
void check_packed(const Tensor& all, const Attention::Params& p) {
  constexpr std::int64_t kMostHeads = std::numeric_limits<std::int64_t>::max() / 4;  // so that H + 2 G cannot overflow
  const auto is_valid_count = [](std::int64_t heads) { return heads > 0 && heads < kMostHeads; };
  check<ShapeError>(all.rank() == 3 && is_valid_count(p.heads) && is_valid_count(key_heads(p)) &&
                        all.dim(2) % (p.heads + 2 * key_heads(p)) == 0,
                    "{}: without k and v, q holds them too: wanted (B, T, (H + 2 G) D), `heads` H and `key_heads` G, "
                    "got {} with {} and {}",
                    where(kName), all.shape(), p.heads, key_heads(p));
}

void check_inputs(std::span<const Tensor> in, const Attention::Params& p) {
  check<ArgumentError>(in[1].defined() == in[2].defined(), "{}: wanted both of k and v, or neither", where(kName));
  if (!in[1].defined()) check_packed(in[0], p);
  const auto [q, k, v] = tokens_of(in, p);
  check<DTypeError>(is_floating(q.dtype()) && k.dtype() == q.dtype() && v.dtype() == q.dtype(),
                    "{}: wanted q, k and v of one floating dtype, got {}, {} and {}", where(kName), name_of(q.dtype()),
                    name_of(k.dtype()), name_of(v.dtype()));
  check<ShapeError>(
      (q.rank() == 4 || q.rank() == 3) && k.rank() == q.rank() && v.shape() == k.shape() && k.dim(0) == q.dim(0),
      "{}: wanted q (B, T, H, D), k and v (B, S, G, D), or (B, T, H D) and (B, S, G D), got {}, {} and {}",
      where(kName), q.shape(), k.shape(), v.shape());
  if (q.rank() == 3)
    check<ShapeError>(p.heads > 0 && q.dim(2) % p.heads == 0 && k.dim(2) % key_heads(p) == 0,
                      "{}: inputs (B, T, H D) need `heads` and `key_heads` that divide {} and {}, got {} and {}",
                      where(kName), q.dim(2), k.dim(2), p.heads, key_heads(p));
  const Layout a(q, p.heads), b(k, key_heads(p));
  check<ShapeError>(a.depth == b.depth && b.heads > 0 && a.heads % b.heads == 0,
                    "{}: wanted heads of one depth and a multiple of the key heads, got {} x {} and {} x {}",
                    where(kName), a.heads, a.depth, b.heads, b.depth);
  check<ArgumentError>(p.dropout >= 0 && p.dropout < 1, "{}: wanted dropout in [0, 1), got {}", where(kName),
                       p.dropout);
}

/// Returns the mask in the form that is added to the logits: values of `dtype`, -inf for hidden keys.
Tensor additive(const Tensor& mask, DType dtype) {
  if (mask.dtype() == dtype && mask.contiguous()) return mask;
  Tensor sum = Tensor::empty(mask.shape(), dtype, mask.device());
  if (mask.numel() == 0) return sum;
  kernels(mask.device()).additive_mask({input_rows(mask), output_rows(sum), mask.shape().rows(), mask.shape().cols()});
  return sum;
}

/// Returns the factor of the logits, 1 / sqrt(depth) by default. It is computed in double for f64 and in float for
/// other dtypes, as the op computes.
double scale_of(const Attention::Params& p, std::int64_t depth, DType dtype) {
  if (p.scale != 0) return p.scale;
  return dtype == DType::f64 ? 1 / std::sqrt(static_cast<double>(depth))
                             : static_cast<double>(1 / std::sqrt(static_cast<float>(depth)));
}

AttentionArgs arguments(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                        const Attention::Params& p, const RandomStream& rng) {
  const Layout a(q, p.heads), b(k, key_heads(p)), c(v, key_heads(p));
  AttentionArgs args;
  args.batch = a.batch;
  args.queries = a.tokens;
  args.keys = b.tokens;
  args.heads = a.heads;
  args.key_heads = b.heads;
  args.depth = a.depth;
  args.scale = scale_of(p, a.depth, q.dtype());
  args.causal = p.causal;
  args.dtype = q.dtype();
  args.q = a.tokens_of(q);
  args.k = b.tokens_of(k);
  args.v = c.tokens_of(v);
  args.dropout = p.dropout;
  args.rng = rng;
  if (!mask.defined()) return args;
  const auto stride = [&](int d, std::int64_t extent, std::int64_t step) {
    check<ShapeError>(mask.dim(d) == extent || mask.dim(d) == 1,
                      "{}: wanted mask (B, S) or (B, H, T, S) with B {}, H {}, T {}, S {}, got {}", where(kName),
                      a.batch, a.heads, a.tokens, b.tokens, mask.shape());
    return mask.dim(d) == 1 ? 0 : step;
  };
  check<ShapeError>((mask.rank() == 2 || mask.rank() == 4) && mask.dim(-1) == b.tokens,
                    "{}: wanted mask (B, S) or (B, H, T, S) with S {}, got {}", where(kName), b.tokens, mask.shape());
  args.mask = mask.raw();
  if (mask.rank() == 2) {
    args.mask_batch = stride(0, a.batch, b.tokens);
  } else {
    args.mask_query = stride(2, a.tokens, b.tokens);
    args.mask_head = stride(1, a.heads, mask.dim(2) * b.tokens);
    args.mask_batch = stride(0, a.batch, mask.dim(1) * mask.dim(2) * b.tokens);
  }
  return args;
}

std::vector<double> logits_of(const AttentionArgs& args, std::int64_t batch, std::int64_t head, std::int64_t query) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  const std::int64_t key_head = head / (args.heads / args.key_heads);
  const std::int64_t in_mask = batch * args.mask_batch + head * args.mask_head + query * args.mask_query;
  std::vector<double> logits(static_cast<std::size_t>(args.keys), kHidden);
  dispatch_float(args.dtype, kName, [&]<class T>(TypeTag<T>) {
    const Compute<T>* mask = args.mask != nullptr ? static_cast<const Compute<T>*>(args.mask) + in_mask : nullptr;
    const auto vector_of = [&](const AttentionArgs::Tokens& x, std::int64_t length, std::int64_t t, std::int64_t h) {
      return static_cast<const T*>(x.data) + (batch * length + t) * x.token + h * x.head;
    };
    const T* q = vector_of(args.q, args.queries, query, head);
    const std::int64_t visible = args.causal ? std::min(args.keys, query + 1 + args.keys - args.queries) : args.keys;
    for (std::int64_t s = 0; s < visible; ++s) {
      const T* k = vector_of(args.k, args.keys, s, key_head);
      double dot = 0;
      for (std::int64_t d = 0; d < args.depth; ++d)
        dot += static_cast<double>(load(q[d])) * static_cast<double>(load(k[d]));
      logits[static_cast<std::size_t>(s)] = args.scale * dot + (mask != nullptr ? static_cast<double>(mask[s]) : 0);
    }
  });
  return logits;
}

}  // namespace

std::vector<std::vector<double>> attention_logits(std::span<const Tensor> in, const Attention::Params& p,
                                                  std::int64_t count) {
  check_inputs(in, p);
  const Device host = Device::cpu();
  const auto [q, k, v] = tokens_of(in, p);
  const Tensor there_q = q.to(host), there_k = k.to(host),
               mask = in[3].defined() ? additive(in[3].to(host), accumulate_dtype(q.dtype())) : Tensor();
  const AttentionArgs args = arguments(there_q, there_k, v, mask, p, {});  // logits do not depend on v
  const std::int64_t rows = args.batch * args.heads * args.queries;
  std::vector<std::vector<double>> logits;
  const RowSample sample(rows, count);
  for (std::int64_t i = 0; i < sample.size; ++i) {
    const std::int64_t row = sample.of(i);
    logits.push_back(
        logits_of(args, row / args.queries / args.heads, row / args.queries % args.heads, row % args.queries));
  }
  return logits;
}

AttentionCall attention_call(std::span<const Tensor> in, const Attention::Params& p) {
  check_inputs(in, p);
  AttentionCall call;
  const auto [q, k, v] = tokens_of(in, p);
  if (in[3].defined()) call.mask = additive(in[3], accumulate_dtype(q.dtype()));
  call.args = arguments(q, k, v, call.mask, p, {});
  return call;
}

Tensors Attention::forward(OpContext& ctx, std::span<const Tensor> in, const Params& p) {
  check_inputs(in, p);
  const auto [q, k, v] = tokens_of(in, p);
  const Tensor mask = in[3].defined() ? additive(in[3], accumulate_dtype(q.dtype())) : Tensor();
  const Layout a(q, p.heads);
  Tensor y = Tensor::empty(q.shape(), q.dtype(), q.device());
  Tensor lse = Tensor::empty({a.batch, a.heads, a.tokens}, accumulate_dtype(q.dtype()), q.device());
  const Layout c(y, p.heads);
  kernels(q.device())
      .attention_forward({.args = arguments(q, k, v, mask, p, ctx.rng),
                          .y = y.mutable_raw(),
                          .y_token = c.token,
                          .y_head = c.head,
                          .lse = lse.mutable_raw()});
  ctx.save(y);
  ctx.save(lse);
  for (const Tensor& tokens : in.first(3))
    if (tokens.defined()) ctx.save(tokens);
  if (mask.defined()) ctx.save(mask);
  return {y.to(ctx.store_dtype)};
}

void Attention::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
  const bool packed = ctx.inputs[1].shape.rank() == 0, masked = ctx.inputs[3].shape.rank() > 0;
  const Tensor &y = ctx.saved(0, kName), &lse = ctx.saved(1, kName), &first = ctx.saved(2, kName);
  const auto [q, k, v] = packed ? channels_of(first, p) : Tokens{first, ctx.saved(3, kName), ctx.saved(4, kName)};
  const Tensor mask = masked ? ctx.saved(packed ? 3 : 5, kName) : Tensor();
  check<AutogradError>(!ctx.inputs[3].needs_grad, "{}: the mask has no gradient; pass mask.detach()", where(kName));
  const Tensor g = gy[0].to(q.dtype());
  const Layout a(y, p.heads), b(g, p.heads);
  AttentionBackward work{
      .args = arguments(q, k, v, mask, p, ctx.rng), .y = a.tokens_of(y), .gy = b.tokens_of(g), .lse = lse.raw()};
  InputGradient gq(gx, 0, q.dtype()), gk(gx, 1, q.dtype(), !packed), gv(gx, 2, q.dtype(), !packed);
  Tokens to = packed && gq.needed() ? channels_of(gq.tensor(), p) : Tokens{gq.tensor(), gk.tensor(), gv.tensor()};
  if (to.q.defined()) work.gq = Layout(to.q, p.heads).gradient_in(to.q);
  if (to.k.defined()) work.gk = Layout(to.k, key_heads(p)).gradient_in(to.k);
  if (to.v.defined()) work.gv = Layout(to.v, key_heads(p)).gradient_in(to.v);
  // If q and k have no elements, the kernel is skipped: extents such as 2^50 heads of depth 0 would make it loop for
  // long.
  if (q.numel() + k.numel() > 0) kernels(q.device()).attention_backward(work);
  for (InputGradient* gradient : {&gq, &gk, &gv}) gradient->finish();
}

}  // namespace binade::ops
