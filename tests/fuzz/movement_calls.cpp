#include "binade/autograd/functions/index.h"
#include "binade/autograd/functions/order.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/scan.h"
#include "tests/fuzz/calls.h"

namespace binade::fuzz {
namespace {

using A = Arguments&;
using Out = std::vector<Variable>;

std::vector<int> axes(A a) {
  std::vector<int> list;
  for (std::size_t n = a.draws().below(4); n > 0; --n) list.push_back(a.axis(3));
  return list;
}

Out pack(IndexedResult r) { return {r.values, r.indices}; }
Out pack(UniqueResult r) { return {r.values, r.inverse, r.counts}; }

std::vector<Variable> parts(A a) {
  std::vector<Variable> list;
  for (std::size_t n = a.draws().below(4); n > 0; --n) list.push_back(a.tensor({a.t, a.d}));
  return list;
}

}  // namespace

const std::vector<Call>& movement_calls() {
  static const std::vector<Call> all{
      {"gather",
       [](A a) -> Out {
         return {gather(a.tensor({a.b, a.t, a.d}), 1, a.indices({a.b, a.k, a.d}, a.t))};
       }},
      {"index_select",
       [](A a) -> Out {
         return {index_select(a.tensor({a.b, a.t, a.d}), a.axis(3), a.indices({a.k}, a.t))};
       }},
      {"take_along_dim",
       [](A a) -> Out {
         return {take_along_dim(a.tensor({a.b, a.t, a.d}), a.indices({a.b, a.k, 1}, a.t), 1)};
       }},
      {"take",
       [](A a) -> Out {
         return {take(a.tensor({a.t, a.d}), a.indices({a.b, a.k}, a.t * a.d))};
       }},
      {"scatter",
       [](A a) -> Out {
         const Variable x = a.tensor({a.b, a.t, a.d}), index = a.indices({a.b, a.k, a.d}, a.t);
         if (a.flag()) return {scatter(x, 1, index, a.real(1))};
         return {scatter(x, 1, index, a.tensor({a.b, a.k, a.d}))};
       }},
      {"scatter_add",
       [](A a) -> Out {
         return {scatter_add(a.tensor({a.b, a.t, a.d}), 1, a.indices({a.b, a.k, a.d}, a.t), a.tensor({a.b, a.k, a.d}))};
       }},
      {"scatter_reduce",
       [](A a) -> Out {
         const auto how = static_cast<ScatterReduce>(a.draws().below(5));
         return {
             scatter_reduce(a.tensor({a.t, a.d}), 0, a.indices({a.k, a.d}, a.t), a.tensor({a.k, a.d}), how, a.flag())};
       }},
      {"index_add",
       [](A a) -> Out {
         return {index_add(a.tensor({a.b, a.t, a.d}), 1, a.indices({a.k}, a.t), a.tensor({a.b, a.k, a.d}), a.real(1))};
       }},
      {"index_copy",
       [](A a) -> Out {
         return {index_copy(a.tensor({a.b, a.t, a.d}), 1, a.indices({a.k}, a.t), a.tensor({a.b, a.k, a.d}))};
       }},
      {"index_fill",
       [](A a) -> Out {
         return {index_fill(a.tensor({a.b, a.t, a.d}), 1, a.indices({a.k}, a.t), a.real(2))};
       }},
      {"index_reduce",
       [](A a) -> Out {
         const auto how = static_cast<ScatterReduce>(a.draws().below(5));
         return {index_reduce(a.tensor({a.t, a.d}), 0, a.indices({a.k}, a.t), a.tensor({a.k, a.d}), how, a.flag())};
       }},
      {"index",
       [](A a) -> Out {
         return {index(a.tensor({a.b, a.t, a.d}), {a.indices({a.k, 1}, a.b), a.indices({a.c}, a.t)})};
       }},
      {"index_put",
       [](A a) -> Out {
         return {index_put(a.tensor({a.b, a.t, a.d}), {a.indices({a.k}, a.b), a.indices({a.k}, a.t)},
                           a.tensor({a.k, a.d}), a.flag())};
       }},
      {"nonzero", [](A a) -> Out { return {nonzero(a.any())}; }},
      {"masked_select",
       [](A a) -> Out {
         return {masked_select(a.tensor({a.b, a.t, a.d}), a.mask({a.t, a.d}))};
       }},
      {"masked_fill",
       [](A a) -> Out {
         return {masked_fill(a.tensor({a.b, a.t, a.d}), a.mask({a.t, a.d}), a.real(1))};
       }},
      {"embedding_bag",
       [](A a) -> Out {
         const auto mode = static_cast<BagMode>(a.draws().below(3));
         const Variable weight = a.tensor({a.k, a.d});
         if (a.flag()) return {embedding_bag(weight, a.indices({a.b, a.t}, a.k), {}, mode, a.parameter({a.b, a.t}))};
         return {embedding_bag(weight, a.indices({a.t}, a.k), a.indices({a.b}, 1), mode)};
       }},
      {"segment_reduce",
       [](A a) -> Out {
         const auto how = static_cast<ScatterReduce>(a.draws().below(5));
         return {segment_reduce(a.tensor({a.t, a.d}), a.indices({a.t}, 2), how)};
       }},
      {"cumulate", [](A a) -> Out { return {cumsum(a.any(), a.axis(2))}; }},
      {"cumsum",
       [](A a) -> Out {
         return {cumsum(a.tensor({a.b, a.t, a.d}), a.axis(3))};
       }},
      {"cumprod",
       [](A a) -> Out {
         return {cumprod(a.tensor({a.b, a.t, a.d}), a.axis(3))};
       }},
      {"logcumsumexp",
       [](A a) -> Out {
         return {logcumsumexp(a.tensor({a.b, a.t, a.d}), a.axis(3))};
       }},
      {"cumulative_extreme", [](A a) -> Out { return {cummax(a.any(), a.axis(2)).indices}; }},
      {"cummax",
       [](A a) {
         return pack(cummax(a.tensor({a.b, a.t, a.d}), a.axis(3)));
       }},
      {"cummin",
       [](A a) {
         return pack(cummin(a.tensor({a.b, a.t, a.d}), a.axis(3)));
       }},
      {"sort",
       [](A a) {
         return pack(sort(a.tensor({a.b, a.t, a.d}), a.axis(3), a.flag()));
       }},
      {"argsort", [](A a) -> Out { return {argsort(a.any(), a.axis(2), a.flag())}; }},
      {"msort", [](A a) -> Out { return {msort(a.any())}; }},
      {"topk",
       [](A a) {
         return pack(topk(a.tensor({a.b, a.t, a.d}), a.number(1), a.axis(3), a.flag()));
       }},
      {"kthvalue",
       [](A a) {
         return pack(kthvalue(a.tensor({a.b, a.t, a.d}), a.number(1), a.axis(3), a.flag()));
       }},
      {"median",
       [](A a) -> Out {
         if (a.flag()) return {median(a.any())};
         return pack(median(a.tensor({a.b, a.t, a.d}), a.axis(3), a.flag()));
       }},
      {"unique", [](A a) { return pack(unique(a.any())); }},
      {"unique_consecutive", [](A a) { return pack(unique_consecutive(a.any())); }},
      {"bincount", [](A a) -> Out { return {bincount(a.indices({a.t}, a.k), a.parameter({a.t}), a.number(3))}; }},
      {"histc", [](A a) -> Out { return {histc(a.any(), a.number(5), a.real(0), a.real(1))}; }},
      {"searchsorted",
       [](A a) -> Out {
         return {searchsorted(a.flag() ? a.tensor({a.t}) : a.tensor({a.b, a.t}), a.tensor({a.b, a.d}), a.flag())};
       }},
      {"bucketize", [](A a) -> Out { return {bucketize(a.any(), a.tensor({a.t}), a.flag())}; }},
      {"rearrange",
       [](A a) -> Out {
         return {flip(a.tensor({a.b, a.t, a.d}), {a.axis(3)})};
       }},
      {"flip",
       [](A a) -> Out {
         return {flip(a.tensor({a.b, a.t, a.d}), axes(a))};
       }},
      {"roll",
       [](A a) -> Out {
         if (a.flag()) return {roll(a.any(), {a.number(3)})};
         return {roll(a.tensor({a.b, a.t, a.d}), {a.number(1), a.number(-2)}, {a.axis(3), a.axis(3)})};
       }},
      {"rot90",
       [](A a) -> Out {
         return {rot90(a.tensor({a.b, a.t, a.d}), static_cast<int>(a.draws().below(9)) - 4, a.axis(3), a.axis(3))};
       }},
      {"select",
       [](A a) -> Out {
         return {select(a.tensor({a.b, a.t, a.d}), a.axis(3), a.number(0))};
       }},
      {"strided_slice",
       [](A a) -> Out {
         return {slice(a.tensor({a.b, a.t, a.d}), a.axis(3), a.number(0), a.number(-1), a.number(2))};
       }},
      {"expand",
       [](A a) -> Out {
         return {expand(a.tensor({a.b, 1, a.d}), {a.number(-1), a.number(a.t), a.number(a.d)})};
       }},
      {"broadcast_to",
       [](A a) -> Out {
         return {broadcast_to(a.tensor({1, a.d}), {a.number(2), a.number(a.t), a.number(a.d)})};
       }},
      {"repeat",
       [](A a) -> Out {
         return {repeat(a.tensor({a.t, a.d}), {a.number(1), a.number(2), a.number(1)})};
       }},
      {"tile",
       [](A a) -> Out {
         return {tile(a.tensor({a.t, a.d}), {a.number(2)})};
       }},
      {"repeat_interleave",
       [](A a) -> Out {
         const Variable x = a.tensor({a.b, a.t, a.d});
         if (a.flag()) return {repeat_interleave(x, a.number(2), a.axis(3))};
         return {repeat_interleave(x, a.indices({a.t}, 3), 1)};
       }},
      {"pad",
       [](A a) -> Out {
         return {pad(a.tensor({a.b, a.t, a.d}), {a.number(1), a.number(0), a.number(0), a.number(1)},
                     static_cast<PadMode>(a.draws().below(4)), a.real(0))};
       }},
      {"unfold",
       [](A a) -> Out {
         return {unfold(a.tensor({a.b, a.t, a.d}), a.axis(3), a.number(1), a.number(1))};
       }},
      {"unfold2d",
       [](A a) -> Out {
         return {unfold2d(a.images(), {.kernel = a.extent(2), .stride = a.extent(1), .padding = a.extent(1)})};
       }},
      {"fold2d",
       [](A a) -> Out {
         return {fold2d(a.tensor({a.n, 12, 4 * a.c}), {a.number(4), a.number(5)}, {.kernel = a.extent(2)})};
       }},
      {"diagonal",
       [](A a) -> Out {
         return {diagonal(a.tensor({a.b, a.t, a.d}), a.number(0), a.axis(3), a.axis(3))};
       }},
      {"diag_embed",
       [](A a) -> Out {
         return {diag_embed(a.tensor({a.b, a.d}), a.number(0), a.axis(3), a.axis(3))};
       }},
      {"squeeze", [](A a) -> Out { return {a.flag() ? squeeze(a.any()) : squeeze(a.any(), a.axis(2))}; }},
      {"unsqueeze", [](A a) -> Out { return {unsqueeze(a.any(), a.axis(2))}; }},
      {"movedim",
       [](A a) -> Out {
         return {movedim(a.tensor({a.b, a.t, a.d}), {a.axis(3), a.axis(3)}, {a.axis(3), a.axis(3)})};
       }},
      {"swapaxes",
       [](A a) -> Out {
         return {swapaxes(a.tensor({a.b, a.t, a.d}), a.axis(3), a.axis(3))};
       }},
      {"unflatten",
       [](A a) -> Out {
         return {unflatten(a.tensor({a.b, 4, a.d}), 1, {a.number(2), a.number(-1)})};
       }},
      {"stack", [](A a) -> Out { return {stack(parts(a), a.axis(3))}; }},
      {"hstack", [](A a) -> Out { return {hstack(parts(a))}; }},
      {"vstack", [](A a) -> Out { return {vstack(parts(a))}; }},
      {"split",
       [](A a) {
         return a.flag() ? split(a.any(), a.number(2), a.axis(2)) : split(a.any(), {a.number(1), a.number(1)});
       }},
      {"chunk", [](A a) { return chunk(a.any(), a.number(2), a.axis(2)); }},
      {"unbind", [](A a) { return unbind(a.any(), a.axis(2)); }},
      {"tensor_split",
       [](A a) {
         return a.flag() ? tensor_split(a.any(), a.number(2), a.axis(2))
                         : tensor_split(a.any(), {a.number(1), a.number(-1)});
       }},
      {"bitcast", [](A a) -> Out { return {bitcast(a.any(), a.dtype())}; }},
  };
  return all;
}

}  // namespace binade::fuzz
