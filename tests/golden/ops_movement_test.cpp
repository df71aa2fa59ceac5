#include <gtest/gtest.h>

#include "binade/autograd/functions.h"
#include "tests/golden/op_case.h"

/// Functions that index, scan, sort and rearrange compared with PyTorch's.
namespace binade::golden {
namespace {

using In = const Inputs&;

Function of(Variable (*f)(In)) {
  return [f](const Case&, In in) -> Outputs { return {{"y", f(in)}}; };
}
Function with_positions(IndexedResult (*f)(In)) {
  return [f](const Case&, In in) -> Outputs {
    const auto [values, indices] = f(in);
    return {{"y", values}, {"at", indices}};
  };
}
Function counted(UniqueResult (*f)(const Variable&)) {
  return [f](const Case&, In in) -> Outputs {
    const auto [values, inverse, counts] = f(in["x"]);
    return {{"y", values}, {"i", inverse}, {"c", counts}};
  };
}
template <ScatterReduce reduce, bool self>
Function scattered() {
  return of([](In in) { return scatter_reduce(in["x"], 1, in["i"], in["s"], reduce, self); });
}
template <BagMode mode>
Function bag() {
  return of([](In in) { return embedding_bag(in["x"], in["i"], in["o"], mode); });
}

constexpr UnfoldOptions kWindows{.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}};

std::map<std::string, Function> indexing() {
  return {
      {"gather", of([](In in) { return gather(in["x"], 1, in["i"]); })},
      {"scatter_add", of([](In in) { return scatter_add(in["x"], 1, in["i"], in["s"]); })},
      {"scatter_sum_with_self", scattered<ScatterReduce::kSum, true>()},
      {"scatter_sum_without_self", scattered<ScatterReduce::kSum, false>()},
      {"scatter_mean_with_self", scattered<ScatterReduce::kMean, true>()},
      {"scatter_mean_without_self", scattered<ScatterReduce::kMean, false>()},
      {"scatter_prod_with_self", scattered<ScatterReduce::kProd, true>()},
      {"scatter_prod_without_self", scattered<ScatterReduce::kProd, false>()},
      {"scatter_amax_with_self", scattered<ScatterReduce::kAmax, true>()},
      {"scatter_amax_without_self", scattered<ScatterReduce::kAmax, false>()},
      {"scatter_amin_with_self", scattered<ScatterReduce::kAmin, true>()},
      {"scatter_amin_without_self", scattered<ScatterReduce::kAmin, false>()},
      {"scatter_last", of([](In in) { return scatter(in["x"], 1, in["i"], in["s"]); })},
      {"index_select", of([](In in) { return index_select(in["x"], 1, in["i"]); })},
      {"index_add_2", of([](In in) { return index_add(in["x"], 1, in["i"], in["s"], 2); })},
      {"index_copy", of([](In in) { return index_copy(in["x"], 1, in["i"], in["s"]); })},
      {"index_fill", of([](In in) { return index_fill(in["x"], 1, in["i"], 1.5); })},
      {"take", of([](In in) { return take(in["x"], in["i"]); })},
      {"take_along_dim", of([](In in) { return take_along_dim(in["x"], in["i"], 2); })},
      {"index", of([](In in) {
         return index(in["x"], {in["i"], in["j"]});
       })},
      {"index_put", of([](In in) {
         return index_put(in["x"], {in["i"], in["j"]}, in["s"]);
       })},
      {"index_put_accumulate", of([](In in) {
         return index_put(in["x"], {in["i"], in["j"]}, in["s"], true);
       })},
      {"masked_select", of([](In in) { return masked_select(in["x"], in["m"]); })},
      {"masked_fill", of([](In in) { return masked_fill(in["x"], in["m"], -1.5); })},
      {"nonzero", of([](In in) { return nonzero(in["x"]); })},
      {"embedding_bag_sum", bag<BagMode::kSum>()},
      {"embedding_bag_mean", bag<BagMode::kMean>()},
      {"embedding_bag_max", bag<BagMode::kMax>()},
  };
}

std::map<std::string, Function> ordering() {
  return {
      {"cumsum", of([](In in) { return cumsum(in["x"], 1); })},
      {"cumprod", of([](In in) { return cumprod(in["x"], 1); })},
      {"logcumsumexp", of([](In in) { return logcumsumexp(in["x"], 1); })},
      {"cummax", with_positions([](In in) { return cummax(in["x"], 1); })},
      {"cummin", with_positions([](In in) { return cummin(in["x"], 1); })},
      {"sort", with_positions([](In in) { return sort(in["x"], 1); })},
      {"sort_descending", with_positions([](In in) { return sort(in["x"], 1, true); })},
      {"topk_3", with_positions([](In in) { return topk(in["x"], 3, 1); })},
      {"topk_3_smallest", with_positions([](In in) { return topk(in["x"], 3, 1, false); })},
      {"kthvalue_3", with_positions([](In in) { return kthvalue(in["x"], 3, 1); })},
      {"median", with_positions([](In in) { return median(in["x"], 1); })},
      {"median_of_all", of([](In in) { return median(in["x"]); })},
      {"msort", of([](In in) { return msort(in["x"]); })},
      {"unique", counted(unique)},
      {"unique_consecutive", counted(unique_consecutive)},
      {"bincount", of([](In in) { return bincount(in["x"]); })},
      {"histc", of([](In in) { return histc(in["x"], 5, -1, 1); })},
      {"bucketize", of([](In in) { return bucketize(in["x"], in["b"]); })},
      {"bucketize_right", of([](In in) { return bucketize(in["x"], in["b"], true); })},
      {"searchsorted", of([](In in) { return searchsorted(in["b"], in["x"]); })},
  };
}

std::map<std::string, Function> shapes() {
  return {
      {"flip", of([](In in) {
         return flip(in["x"], {0, 2});
       })},
      {"roll", of([](In in) {
         return roll(in["x"], {2, -1}, {1, 2});
       })},
      {"roll_all", of([](In in) { return roll(in["x"], {7}); })},
      {"rot90", of([](In in) { return rot90(in["x"], 3, 0, 2); })},
      {"repeat", of([](In in) {
         return repeat(in["x"], {2, 1, 2, 1});
       })},
      {"tile", of([](In in) {
         return tile(in["x"], {2, 1});
       })},
      {"interleave", of([](In in) { return repeat_interleave(in["x"], 2, 1); })},
      {"interleave_numbers", of([](In in) { return repeat_interleave(in["x"], in["n"], 1); })},
      {"step", of([](In in) { return slice(in["x"], 2, 1, 5, 2); })},
      {"diagonal", of([](In in) { return diagonal(in["x"], -1, 2, 1); })},
      {"diag_embed", of([](In in) { return diag_embed(in["x"], 1, 0, 2); })},
      {"unfold", of([](In in) { return unfold(in["x"], 2, 3, 2); })},
      {"movedim", of([](In in) {
         return movedim(in["x"], {0, 1}, {2, 0});
       })},
      {"expand", of([](In in) {
         return expand(narrow(in["x"], 1, 0, 1), {2, 3, 4, 5});
       })},
      {"pad_constant", of([](In in) {
         return pad(in["x"], {1, -1, 2, 0}, PadMode::kConstant, 0.5);
       })},
      {"pad_reflect", of([](In in) {
         return pad(in["x"], {3, 1}, PadMode::kReflect);
       })},
      {"pad_replicate", of([](In in) {
         return pad(in["x"], {2, 3}, PadMode::kReplicate);
       })},
      {"pad_circular", of([](In in) {
         return pad(in["x"], {4, 2}, PadMode::kCircular);
       })},
      {"unfold2d", of([](In in) { return unfold2d(in["x"], kWindows); })},
      {"fold2d", of([](In in) {
         return fold2d(in["x"], {5, 6}, kWindows);
       })},
  };
}

TEST(GoldenOps, MovementMatchesPyTorch) {
  std::map<std::string, Function> functions = indexing();
  functions.merge(ordering());
  functions.merge(shapes());
  check_family("movement", functions);
}

}  // namespace
}  // namespace binade::golden
