#include <gtest/gtest.h>

#include "binade/autograd/functions.h"
#include "tests/golden/op_case.h"

/// Every loss with every reduction compared with PyTorch's (golden_losses.py).
namespace binade::golden {
namespace {

Reduction reduction_of(const Case& c) {
  const std::string& name = c.text("reduction");
  return name == "none"        ? Reduction::kNone
         : name == "sum"       ? Reduction::kSum
         : name == "batchmean" ? Reduction::kBatchMean
                               : Reduction::kMean;
}

/// A loss of x and a target.
Function of_pair(std::function<Variable(const Case&, const Inputs&, const Variable&, const Variable&)> f) {
  return [f](const Case& c, const Inputs& in) -> Outputs { return {{"y", f(c, in, in["x"], in["target"])}}; };
}
/// A loss of x, a target and a reduction.
Function plain(Variable (*f)(const Variable&, const Variable&, Reduction)) {
  return of_pair(
      [f](const Case& c, const Inputs&, const Variable& x, const Variable& t) { return f(x, t, reduction_of(c)); });
}
/// A function of a and b.
Function of_two(std::function<Variable(const Case&, const Variable&, const Variable&)> f) {
  return [f](const Case& c, const Inputs& in) -> Outputs { return {{"y", f(c, in["a"], in["b"])}}; };
}

using V = const Variable&;

std::map<std::string, Function> class_losses() {
  return {
      {"cross_entropy", of_pair([](const Case& c, const Inputs& in, V x, V t) {
         return cross_entropy(x, t, {.label_smoothing = c.number("label_smoothing"), .reduction = reduction_of(c)},
                              in["weight"]);
       })},
      {"nll", of_pair([](const Case& c, const Inputs& in, V x, V t) {
         return nll(x, t, {.reduction = reduction_of(c)}, in["weight"]);
       })},
      {"bce_with_logits", of_pair([](const Case& c, const Inputs& in, V x, V t) {
         return bce_with_logits(x, t, {.reduction = reduction_of(c)},
                                {.weight = in["weight"], .pos_weight = in["pos_weight"]});
       })},
      {"bce",
       of_pair([](const Case& c, const Inputs& in, V x, V t) { return bce(x, t, reduction_of(c), in["weight"]); })},
      {"focal", of_pair([](const Case& c, const Inputs&, V x, V t) {
         return focal(x, t, {.alpha = c.number("alpha"), .gamma = c.number("gamma"), .reduction = reduction_of(c)});
       })},
      {"tversky", of_pair([](const Case& c, const Inputs&, V x, V t) {
         return tversky(x, t, {.alpha = c.number("alpha"), .beta = c.number("beta"), .smooth = c.number("smooth")});
       })},
      {"multiclass_dice", of_pair([](const Case& c, const Inputs&, V x, V t) {
         return multiclass_dice(
             x, t, {.smooth = 0.5, .include_background = c.flag("background"), .reduction = reduction_of(c)});
       })},
      {"dice_cross_entropy", of_pair([](const Case&, const Inputs& in, V x, V t) {
         return dice_cross_entropy(x, t,
                                   {.dice_weight = 0.7,
                                    .cross_entropy_weight = 1.3,
                                    .smooth = 0.5,
                                    .include_background = false,
                                    .label_smoothing = 0.1},
                                   in["weight"]);
       })},
      {"ctc", of_pair([](const Case& c, const Inputs& in, V x, V t) {
         return ctc(
             log_softmax(x), t, in["inputs"], in["lengths"],
             {.blank = c.integer("blank"), .reduction = reduction_of(c), .zero_infinity = c.flag("zero_infinity")});
       })},
  };
}

std::map<std::string, Function> distance_losses() {
  return {
      {"mse", plain(mse)},
      {"l1", plain(l1)},
      {"kl_div", plain(kl_div)},
      {"soft_margin", plain(soft_margin)},
      {"multilabel_margin", plain(multilabel_margin)},
      {"huber", of_pair([](const Case& c, const Inputs&, V x, V t) { return huber(x, t, 0.4, reduction_of(c)); })},
      {"smooth_l1", of_pair([](const Case& c, const Inputs&, V x, V t) {
         return smooth_l1(x, t, c.number("beta"), reduction_of(c));
       })},
      {"poisson_nll", of_pair([](const Case& c, const Inputs&, V x, V t) {
         return poisson_nll(x, t,
                            {.log_input = c.flag("log_input"), .full = c.flag("full"), .reduction = reduction_of(c)});
       })},
      {"gaussian_nll", of_pair([](const Case& c, const Inputs& in, V x, V t) {
         return gaussian_nll(x, t, in["variance"],
                             {.full = c.flag("full"), .eps = c.number("eps"), .reduction = reduction_of(c)});
       })},
      {"hinge_embedding", of_pair([](const Case& c, const Inputs&, V x, V t) {
         return hinge_embedding(x, t, c.number("margin"), reduction_of(c));
       })},
      {"multi_margin", of_pair([](const Case& c, const Inputs& in, V x, V t) {
         return multi_margin(
             x, t, {.p = static_cast<int>(c.integer("p")), .margin = c.number("margin"), .reduction = reduction_of(c)},
             in["weight"]);
       })},
      {"multilabel_soft_margin", of_pair([](const Case& c, const Inputs& in, V x, V t) {
         return multilabel_soft_margin(x, t, reduction_of(c), in["weight"]);
       })},
      {"margin_ranking",
       [](const Case& c, const Inputs& in) -> Outputs {
         return {{"y", margin_ranking(in["a"], in["b"], in["target"], c.number("margin"), reduction_of(c))}};
       }},
      {"cosine_embedding",
       [](const Case& c, const Inputs& in) -> Outputs {
         return {{"y", cosine_embedding(in["a"], in["b"], in["target"], c.number("margin"), reduction_of(c))}};
       }},
      {"triplet_margin",
       [](const Case& c, const Inputs& in) -> Outputs {
         return {{"y", triplet_margin(in["a"], in["b"], in["c"],
                                      {.margin = c.number("margin"),
                                       .p = c.number("p"),
                                       .swap = c.flag("swap"),
                                       .reduction = reduction_of(c)})}};
       }},
      {"pairwise_distance",
       of_two([](const Case& c, V a, V b) { return pairwise_distance(a, b, c.number("p"), 1e-6, c.flag("keepdim")); })},
      {"cosine_similarity",
       of_two([](const Case& c, V a, V b) { return cosine_similarity(a, b, static_cast<int>(c.integer("axis"))); })},
  };
}

TEST(GoldenOps, LossFunctionsMatchPyTorch) {
  std::map<std::string, Function> functions = class_losses();
  functions.merge(distance_losses());
  check_family("loss_functions", functions);
}

}  // namespace
}  // namespace binade::golden
