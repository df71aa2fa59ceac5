#include "binade/autograd/functions.h"
#include "binade/autograd/recompute.h"
#include "tests/fuzz/calls.h"
#include "tests/fuzz/work.h"

namespace binade::fuzz {
namespace {

using A = Arguments&;
using Out = std::vector<Variable>;

std::vector<int> axes(A a) {
  std::vector<int> list;
  for (std::size_t n = a.draws().below(4); n > 0; --n) list.push_back(a.axis(3));
  return list;
}

PoolOptions pool(A a) {
  if (a.draws().one_in(30)) {  // a window far larger than the image, with padding
    const std::int64_t half = 1ll << a.draws().below(62);
    return {.kernel = 2 * half, .stride = a.extent(1), .padding = half};
  }
  return {.kernel = a.extent(2),
          .stride = a.extent(a.flag() ? 0 : 2),
          .padding = a.extent(a.flag() ? 0 : 1),
          .count_include_pad = a.flag()};
}

/// Larger extents give results that take too long to compute, or that do not fit into memory.
constexpr std::int64_t kFar = 100;
bool is_far(const Extent3& e) { return e.z > kFar || e.y > kFar || e.x > kFar; }

Pool1dOptions pool1d(A a) {
  const PoolOptions o = pool(a);
  return {.kernel = o.kernel.x, .stride = o.stride.x, .padding = o.padding.x, .count_include_pad = o.count_include_pad};
}

Pool3dOptions pool3d(A a) {
  const PoolOptions o = pool(a);
  return {.kernel = {a.extent(2).y, o.kernel.y, o.kernel.x},
          .stride = {a.flag() ? o.stride.y : 1, o.stride.y, o.stride.x},
          .padding = {a.extent(0).y, o.padding.y, o.padding.x},
          .count_include_pad = o.count_include_pad};
}

ChannelNormOptions norm(A a) {
  ChannelNormOptions options{.eps = a.real(1e-5), .relu = a.flag()};
  if (a.draws().one_in(3)) options.residual = a.images();
  return options;
}

UpsampleMode mode(A a) { return a.flag() ? UpsampleMode::kNearest : UpsampleMode::kBilinear; }

ops::Attention::Params attention_params(A a, bool by_heads) {
  return {.causal = a.flag(),
          .dropout = static_cast<float>(a.real(0.25)),
          .scale = a.real(0),
          .heads = a.number(by_heads ? a.i : 0),
          .key_heads = a.number(0)};
}

Variable attention_mask(A a) {
  const auto one = [&](std::int64_t e) { return a.draws().one_in(3) ? 1 : e; };
  switch (a.draws().below(4)) {
    case 0: return a.tensor({one(a.b), one(a.i), one(a.t), a.k});
    case 1: return a.mask({one(a.b), one(a.i), one(a.t), a.k});
    case 2: return a.mask({a.b, a.k});
    default: return {};
  }
}

Out attend(A a) {
  if (a.draws().one_in(4)) {
    ops::Attention::Params params = attention_params(a, true);
    params.key_heads = a.number(1);
    return {attention(a.tensor({a.b, a.t, (a.i + 2) * a.d}), {}, {}, params, attention_mask(a))};
  }
  const bool by_heads = a.flag();
  if (by_heads) {
    const Variable q = a.tensor({a.b, a.t, a.i * a.d}), k = a.tensor({a.b, a.k, a.i * a.d}),
                   v = a.tensor({a.b, a.k, a.i * a.d});
    return {attention(q, k, v, attention_params(a, true), attention_mask(a))};
  }
  const std::int64_t groups = a.draws().one_in(3) ? 1 : a.i;
  const Variable q = a.tensor({a.b, a.t, a.i, a.d}), k = a.tensor({a.b, a.k, groups, a.d}),
                 v = a.tensor({a.b, a.k, groups, a.d});
  return {attention(q, k, v, attention_params(a, false), attention_mask(a))};
}

Out pack(AddNormResult r) { return {r.h, r.y}; }

Out pack(const RecurrentResult& r) {
  Out out{r.y, r.state.h};
  if (r.state.c.defined()) out.push_back(r.state.c);
  return out;
}
/// Arguments of rnn(), lstm() and gru() for this number of gates.
struct Recurrence {
  Variable x;
  RecurrentWeights weights;
  RecurrentState start;
  SequenceOptions options;
  Recurrence(A a, std::int64_t gates, bool cells)
      : x(a.tensor({a.b, a.t, a.d})),
        weights{a.tensor({gates * a.k, a.d}), a.tensor({gates * a.k, a.k}), a.parameter({gates * a.k}),
                a.parameter({gates * a.k})} {
    if (a.flag()) start.h = a.tensor({a.b, a.k});
    if (cells) start.c = a.parameter({a.b, a.k});
    options.reverse = a.flag();
    if (a.flag()) options.lengths = a.indices({a.b}, a.t + 1);
  }
};

}  // namespace

const std::vector<Call>& function_calls() {
  static const std::vector<Call> calls{
      {"rnn",
       [](A a) -> Out {
         Recurrence r(a, 1, false);
         r.options.relu = a.flag();
         return pack(rnn(r.x, r.weights, r.start, r.options));
       }},
      {"lstm",
       [](A a) -> Out {
         const Recurrence r(a, 4, true);
         return pack(lstm(r.x, r.weights, r.start, r.options));
       }},
      {"gru",
       [](A a) -> Out {
         const Recurrence r(a, 3, false);
         return pack(gru(r.x, r.weights, r.start, r.options));
       }},
      {"reductions of whole numbers",
       [](A a) -> Out {
         const Variable x = a.flag() ? a.indices({a.t, a.d}, 300) : a.mask({a.t, a.d});
         return {sum(x, a.axis(2)), prod(x, axes(a)), max(x, axes(a)), min(x, axes(a)), argmax(x)};
       }},
      {"sum",
       [](A a) -> Out {
         return {sum(a.tensor({a.b, a.t, a.d}), axes(a), a.flag())};
       }},
      {"mean",
       [](A a) -> Out {
         return {mean(a.tensor({a.b, a.t, a.d}), axes(a), a.flag())};
       }},
      {"max",
       [](A a) -> Out {
         return {max(a.tensor({a.b, a.t, a.d}), axes(a), a.flag())};
       }},
      {"prod",
       [](A a) -> Out {
         return {prod(a.tensor({a.b, a.t, a.d}), axes(a), a.flag())};
       }},
      {"min",
       [](A a) -> Out {
         return {min(a.tensor({a.b, a.t, a.d}), axes(a), a.flag())};
       }},
      {"any",
       [](A a) -> Out {
         return {any(a.tensor({a.b, a.t, a.d}), axes(a), a.flag())};
       }},
      {"all",
       [](A a) -> Out {
         return {all(a.tensor({a.b, a.t, a.d}), axes(a), a.flag())};
       }},
      {"max_along",
       [](A a) -> Out {
         const auto [values, indices] = max(a.tensor({a.b, a.t, a.d}), a.axis(3), a.flag());
         return {values, indices};
       }},
      {"min_along",
       [](A a) -> Out {
         const auto [values, indices] = min(a.tensor({a.b, a.t, a.d}), a.axis(3), a.flag());
         return {values, indices};
       }},
      {"argmax",
       [](A a) -> Out {
         const Variable x = a.tensor({a.b, a.t, a.d});
         return {a.flag() ? argmax(x) : argmax(x, a.axis(3), a.flag())};
       }},
      {"argmin",
       [](A a) -> Out {
         const Variable x = a.tensor({a.b, a.t, a.d});
         return {a.flag() ? argmin(x) : argmin(x, a.axis(3), a.flag())};
       }},
      {"rotary",
       [](A a) -> Out {
         const std::int64_t begin = a.number(a.k);
         const Variable x = a.tensor({a.b, a.t, a.i, 2 * a.d});
         const std::int64_t tokens = a.number(a.t), width = a.number(2 * a.d);
         const bool many = tokens > 1000 ||
                           width > 1000;  // most of these sizes are valid, and the table would be large
         return {rotary(x, rotary_table(many ? 3 : tokens, many ? 4 : width, a.real(10000), begin),
                        a.flag() ? RotaryPairs::kHalves : RotaryPairs::kNeighbors)};
       }},
      {"glu",
       [](A a) -> Out {
         return {glu(a.tensor({a.b, a.t, 2 * a.d}), a.axis(3))};
       }},
      {"dropout2d", [](A a) -> Out { return {dropout2d(a.images(), a.real(0.5))}; }},
      {"alpha_dropout", [](A a) -> Out { return {alpha_dropout(a.any(), a.real(0.5))}; }},
      {"pixel_shuffle",
       [](A a) -> Out {
         return {pixel_shuffle(a.tensor({a.n, a.h, a.w, 4 * a.c}), a.number(2))};
       }},
      {"pixel_unshuffle",
       [](A a) -> Out {
         return {pixel_unshuffle(a.tensor({a.n, 2 * a.h, 2 * a.w, a.c}), a.number(2))};
       }},
      {"adaptive_avg_pool2d", [](A a) -> Out { return {adaptive_avg_pool2d(a.images(), a.extent(a.r))}; }},
      {"adaptive_max_pool2d", [](A a) -> Out { return {adaptive_max_pool2d(a.images(), a.extent(a.r))}; }},
      {"conv1d",
       [](A a) -> Out {
         const Conv1dParams p{
             .stride = a.extent(1).x, .padding = a.extent(1).x, .dilation = a.extent(1).x, .groups = a.number(1)};
         const Variable x = a.tensor({a.b, a.t, a.d}), w = a.tensor({a.k, a.r, a.d}), bias = a.parameter({a.k});
         return {conv1d(x, w, bias, p.padding > kFar ? Conv1dParams{} : p)};
       }},
      {"conv_transpose1d",
       [](A a) -> Out {
         const ConvTranspose1dParams p{.stride = a.extent(2).x,
                                       .padding = a.extent(0).x,
                                       .output_padding = a.extent(0).x,
                                       .dilation = a.extent(1).x,
                                       .groups = a.number(1)};
         const Variable x = a.tensor({a.b, a.t, a.d}), w = a.tensor({a.d, a.r, a.k}), bias = a.parameter({a.k});
         return {conv_transpose1d(x, w, bias, p.stride > kFar || p.dilation > kFar ? ConvTranspose1dParams{} : p)};
       }},
      {"conv3d",
       [](A a) -> Out {
         const Conv3dParams p{
             .stride = a.extent3(1), .padding = a.extent3(1), .dilation = a.extent3(1), .groups = a.number(1)};
         const Variable x = a.tensor({a.n, a.t, a.h, a.w, a.c}), w = a.tensor({a.k, a.r, a.s, a.r, a.c}),
                        bias = a.parameter({a.k});
         return {conv3d(x, w, bias, is_far(p.padding) ? Conv3dParams{} : p)};
       }},
      {"conv_transpose3d",
       [](A a) -> Out {
         const ConvTranspose3dParams p{.stride = a.extent3(2),
                                       .padding = a.extent3(0),
                                       .output_padding = a.extent3(0),
                                       .dilation = a.extent3(1),
                                       .groups = a.number(1)};
         const Variable x = a.tensor({a.n, a.t, a.h, a.w, a.c}), w = a.tensor({a.c, a.r, a.s, a.r, a.k}),
                        bias = a.parameter({a.k});
         return {conv_transpose3d(x, w, bias, is_far(p.stride) || is_far(p.dilation) ? ConvTranspose3dParams{} : p)};
       }},
      {"max_pool1d",
       [](A a) -> Out {
         return {max_pool1d(a.tensor({a.b, a.t, a.d}), pool1d(a))};
       }},
      {"avg_pool1d",
       [](A a) -> Out {
         return {avg_pool1d(a.tensor({a.b, a.t, a.d}), pool1d(a))};
       }},
      {"max_pool3d",
       [](A a) -> Out {
         return {max_pool3d(a.tensor({a.n, a.t, a.h, a.w, a.c}), pool3d(a))};
       }},
      {"avg_pool3d",
       [](A a) -> Out {
         return {avg_pool3d(a.tensor({a.n, a.t, a.h, a.w, a.c}), pool3d(a))};
       }},
      {"adaptive_avg_pool1d",
       [](A a) -> Out {
         return {adaptive_avg_pool1d(a.tensor({a.b, a.t, a.d}), a.number(2))};
       }},
      {"adaptive_max_pool1d",
       [](A a) -> Out {
         return {adaptive_max_pool1d(a.tensor({a.b, a.t, a.d}), a.number(2))};
       }},
      {"adaptive_avg_pool3d",
       [](A a) -> Out {
         return {adaptive_avg_pool3d(a.tensor({a.n, a.t, a.h, a.w, a.c}), a.extent3(2))};
       }},
      {"adaptive_max_pool3d",
       [](A a) -> Out {
         return {adaptive_max_pool3d(a.tensor({a.n, a.t, a.h, a.w, a.c}), a.extent3(2))};
       }},
      {"local_response_norm",
       [](A a) -> Out {
         const Variable x = a.images();
         const std::int64_t size = a.number(5);
         return {local_response_norm(x, size > 100 && size <= 65536 ? 5 : size, a.real(1e-4), a.real(0.75), a.real(1))};
       }},
      {"norm",
       [](A a) -> Out {
         return {norm(a.tensor({a.b, a.t, a.d}), a.real(2), axes(a), a.flag())};
       }},
      {"logsumexp",
       [](A a) -> Out {
         return {logsumexp(a.tensor({a.b, a.t, a.d}), axes(a), a.flag())};
       }},
      {"var",
       [](A a) -> Out {
         return {var(a.tensor({a.b, a.t, a.d}), axes(a), a.real(1), a.flag())};
       }},
      {"stddev",
       [](A a) -> Out {
         return {stddev(a.tensor({a.b, a.t, a.d}), axes(a), a.real(1), a.flag())};
       }},
      {"count_nonzero",
       [](A a) -> Out {
         return {count_nonzero(a.tensor({a.b, a.t, a.d}), axes(a))};
       }},
      {"tril",
       [](A a) -> Out {
         return {tril(a.tensor({a.b, a.t, a.d}), a.number(0))};
       }},
      {"triu",
       [](A a) -> Out {
         return {triu(a.tensor({a.b, a.t, a.d}), a.number(0))};
       }},
      {"diag",
       [](A a) -> Out {
         return {diag(a.flag() ? a.tensor({a.d}) : a.tensor({a.t, a.d}), a.number(0))};
       }},
      {"one_hot",
       [](A a) -> Out {
         return {one_hot(a.indices({a.b, a.t}, 4), a.number(4))};
       }},
      {"meshgrid",
       [](A a) -> Out {
         return meshgrid({a.tensor({a.b}), a.tensor({a.t})});
       }},
      {"softmax",
       [](A a) -> Out {
         return {softmax(a.tensor({a.b, a.t, a.d}), a.axis(3))};
       }},
      {"log_softmax",
       [](A a) -> Out {
         return {log_softmax(a.tensor({a.b, a.t, a.d}), a.axis(3))};
       }},
      {"matmul",
       [](A a) -> Out {
         const bool ta = a.flag(), tb = a.flag();
         const auto x = ta ? a.tensor({a.b, a.d, a.t}) : a.tensor({a.b, a.t, a.d});
         const auto y = a.draws().one_in(2) ? (tb ? a.tensor({a.k, a.d}) : a.tensor({a.d, a.k}))
                                            : (tb ? a.tensor({a.b, a.k, a.d}) : a.tensor({a.b, a.d, a.k}));
         return {matmul(x, y, {.transpose_a = ta, .transpose_b = tb})};
       }},
      {"linear",
       [](A a) -> Out {
         return {linear(a.tensor({a.b, a.t, a.d}), a.tensor({a.k, a.d}), a.parameter({a.k}),
                        {.activation = static_cast<Activation>(a.draws().below(4))})};
       }},
      {"projections",
       [](A a) -> Out {
         const Variable x = a.tensor({a.b, a.t, a.d});
         const std::array<Variable, 3> weights{a.tensor({a.k, a.d}), a.tensor({a.c, a.d}), a.tensor({a.c, a.d})};
         if (a.flag()) return {projections(x, weights)};
         return {projections(x, weights, {a.parameter({a.k}), a.parameter({a.c}), a.parameter({a.c})})};
       }},
      {"conv2d",
       [](A a) -> Out {
         const std::int64_t groups = a.draws().one_in(4) ? a.c : 1;
         ops::Conv2d::Params p{
             .stride = a.extent(1), .padding = a.extent(1), .dilation = a.extent(1), .groups = a.number(groups)};
         const Variable bias = a.parameter({a.k});
         const Variable w = a.tensor({a.k, a.r, a.s, groups > 0 ? a.c / groups : 1});
         const Variable x = a.images();
         if (takes_long<ops::Conv2d>(x, extents_of(w), p)) p = {.groups = p.groups};
         return {conv2d(x, w, bias, p)};
       }},
      {"conv_transpose2d",
       [](A a) -> Out {
         ops::ConvTranspose2d::Params p{.stride = a.extent(2),
                                        .padding = a.extent(0),
                                        .output_padding = a.extent(0),
                                        .dilation = a.extent(1),
                                        .groups = a.number(1)};
         const Variable bias = a.parameter({a.k});
         const Variable w = a.tensor({a.c, a.r, a.s, a.k});
         const Variable x = a.images();
         if (takes_long<ops::ConvTranspose2d>(x, extents_of(w), p)) p = {.groups = p.groups};
         return {conv_transpose2d(x, w, bias, p)};
       }},
      {"attention", attend},
      {"layer_norm",
       [](A a) -> Out {
         return {layer_norm(a.tensor({a.b, a.t, a.d}), a.parameter({a.d}), a.parameter({a.d}), a.real(1e-5))};
       }},
      {"rms_norm",
       [](A a) -> Out {
         return {rms_norm(a.tensor({a.b, a.t, a.d}), a.parameter({a.d}), a.real(1e-6))};
       }},
      {"add_layer_norm",
       [](A a) {
         return pack(add_layer_norm(a.tensor({a.b, a.t, a.d}), a.tensor({a.b, a.t, a.d}), a.parameter({a.d}),
                                    a.parameter({a.d}), a.real(1e-5)));
       }},
      {"add_rms_norm",
       [](A a) {
         return pack(
             add_rms_norm(a.tensor({a.b, a.t, a.d}), a.tensor({a.b, a.t, a.d}), a.parameter({a.d}), a.real(1e-6)));
       }},
      {"group_norm",
       [](A a) -> Out {
         return {group_norm(a.images(), a.number(a.flag() ? 1 : a.c), a.parameter({a.c}), a.parameter({a.c}), norm(a))};
       }},
      {"batch_norm",
       [](A a) -> Out {
         const auto r = batch_norm(a.images(), a.parameter({a.c}), a.parameter({a.c}), norm(a));
         return {r.y, r.mean, r.var};
       }},
      {"batch_norm_with",
       [](A a) -> Out {
         return {batch_norm_with(a.images(), a.parameter({a.c}), a.parameter({a.c}), a.parameter({a.c}),
                                 a.parameter({a.c}), norm(a))};
       }},
      {"max_pool2d", [](A a) -> Out { return {max_pool2d(a.images(), pool(a))}; }},
      {"avg_pool2d", [](A a) -> Out { return {avg_pool2d(a.images(), pool(a))}; }},
      {"upsample", [](A a) -> Out { return {upsample(a.images(), a.number(2), mode(a))}; }},
      {"upsample_to",
       [](A a) -> Out { return {upsample_to(a.images(), a.number(a.h + 1), a.number(a.w + 3), mode(a))}; }},
      {"reshape",
       [](A a) -> Out {
         return {reshape(a.tensor({a.b, a.t, a.d}), {a.number(a.b), a.number(-1), a.number(a.d)})};
       }},
      {"flatten", [](A a) -> Out { return {flatten(a.images(), a.axis(4), a.axis(4))}; }},
      {"permute",
       [](A a) -> Out {
         return {permute(a.tensor({a.b, a.t, a.d}), {a.axis(3), a.axis(3), a.axis(3)})};
       }},
      {"transpose",
       [](A a) -> Out {
         return {transpose(a.tensor({a.b, a.t, a.d}), a.axis(3), a.axis(3))};
       }},
      {"narrow",
       [](A a) -> Out {
         return {narrow(a.tensor({a.b, a.t, a.d}), a.axis(3), a.number(0), a.number(1))};
       }},
      {"slice",
       [](A a) -> Out {
         return {slice(a.tensor({a.b, a.t, a.d}), a.axis(3), a.number(0), a.number(-1))};
       }},
      {"concat",
       [](A a) -> Out {
         std::vector<Variable> parts;
         for (std::size_t n = a.draws().below(4); n > 0; --n) parts.push_back(a.tensor({a.b, a.t, a.d}));
         return {concat(parts, a.axis(3))};
       }},
      {"embedding",
       [](A a) -> Out {
         return {embedding(a.tensor({a.k, a.d}), a.indices({a.b, a.t}, a.k))};
       }},
      {"recompute", [](A a) -> Out { return {recompute([](const Variable& x) { return relu(x * x); }, a.any())}; }},
  };
  return calls;
}

}  // namespace binade::fuzz
