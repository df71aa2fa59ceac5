#include "binade/autograd/functions/losses.h"
#include "tests/fuzz/calls.h"

namespace binade::fuzz {
namespace {

using A = Arguments&;
using Out = std::vector<Variable>;

Reduction reduction(A a) { return static_cast<Reduction>(a.draws().below(5)); }
/// A prediction (b, d), or targets of its shape.
Variable pair(A a) { return a.tensor({a.b, a.d}); }
Variable targets(A a) { return a.flag() ? a.mask({a.b, a.d}) : pair(a); }
/// Labels of rows, or for cross_entropy sometimes probabilities.
Variable labels(A a) { return a.indices({a.b, a.t}, a.k); }
Variable class_weight(A a) { return a.parameter({a.k}); }

}  // namespace

const std::vector<Call>& loss_calls() {
  static const std::vector<Call> calls{
      {"cross_entropy",
       [](A a) -> Out {
         const Variable x = a.tensor({a.b, a.t, a.k}), t = a.draws().one_in(3) ? a.tensor({a.b, a.t, a.k}) : labels(a);
         return {cross_entropy(
             x, t, {.ignore_index = a.number(-100), .label_smoothing = a.real(0.1), .reduction = reduction(a)},
             class_weight(a))};
       }},
      {"nll",
       [](A a) -> Out {
         return {nll(a.tensor({a.b, a.t, a.k}), labels(a), {.ignore_index = a.number(-100), .reduction = reduction(a)},
                     class_weight(a))};
       }},
      {"bce_with_logits",
       [](A a) -> Out {
         return {bce_with_logits(pair(a), targets(a), {.pos_weight = a.real(1), .reduction = reduction(a)},
                                 {.weight = a.parameter({a.d}), .pos_weight = a.parameter({a.b, 1})})};
       }},
      {"bce", [](A a) -> Out { return {bce(pair(a), targets(a), reduction(a), a.parameter({a.d}))}; }},
      {"focal",
       [](A a) -> Out {
         return {focal(pair(a), targets(a), {.alpha = a.real(0.25), .gamma = a.real(2), .reduction = reduction(a)})};
       }},
      {"mse", [](A a) -> Out { return {mse(pair(a), pair(a), reduction(a))}; }},
      {"l1", [](A a) -> Out { return {l1(pair(a), pair(a), reduction(a))}; }},
      {"huber", [](A a) -> Out { return {huber(pair(a), pair(a), a.real(1), reduction(a))}; }},
      {"smooth_l1", [](A a) -> Out { return {smooth_l1(pair(a), pair(a), a.real(1), reduction(a))}; }},
      {"kl_div", [](A a) -> Out { return {kl_div(pair(a), pair(a), reduction(a))}; }},
      {"poisson_nll",
       [](A a) -> Out {
         return {
             poisson_nll(pair(a), targets(a),
                         {.log_input = a.flag(), .full = a.flag(), .eps = a.real(1e-8), .reduction = reduction(a)})};
       }},
      {"gaussian_nll",
       [](A a) -> Out {
         const Variable variance = a.flag() ? pair(a) : a.parameter({a.b});
         return {gaussian_nll(pair(a), pair(a), variance,
                              {.full = a.flag(), .eps = a.real(1e-6), .reduction = reduction(a)})};
       }},
      {"hinge_embedding", [](A a) -> Out { return {hinge_embedding(pair(a), targets(a), a.real(1), reduction(a))}; }},
      {"margin_ranking",
       [](A a) -> Out { return {margin_ranking(pair(a), pair(a), targets(a), a.real(0), reduction(a))}; }},
      {"soft_margin", [](A a) -> Out { return {soft_margin(pair(a), targets(a), reduction(a))}; }},
      {"multi_margin",
       [](A a) -> Out {
         return {multi_margin(a.tensor({a.b, a.t, a.k}), labels(a),
                              {.p = static_cast<int>(a.number(1)), .margin = a.real(1), .reduction = reduction(a)},
                              class_weight(a))};
       }},
      {"multilabel_margin",
       [](A a) -> Out {
         return {multilabel_margin(a.tensor({a.t, a.k}), a.indices({a.t, a.k}, a.k), reduction(a))};
       }},
      {"multilabel_soft_margin",
       [](A a) -> Out { return {multilabel_soft_margin(pair(a), targets(a), reduction(a), a.parameter({a.d}))}; }},
      {"cosine_embedding",
       [](A a) -> Out { return {cosine_embedding(pair(a), pair(a), a.tensor({a.b}), a.real(0), reduction(a))}; }},
      {"triplet_margin",
       [](A a) -> Out {
         return {triplet_margin(
             pair(a), pair(a), pair(a),
             {.margin = a.real(1), .p = a.real(2), .eps = a.real(1e-6), .swap = a.flag(), .reduction = reduction(a)})};
       }},
      {"triplet_margin_with_distance",
       [](A a) -> Out {
         const auto distance = [](const Variable& x, const Variable& y) { return pairwise_distance(x, y); };
         return {triplet_margin_with_distance(pair(a), pair(a), pair(a), distance,
                                              {.margin = a.real(1), .swap = a.flag(), .reduction = reduction(a)})};
       }},
      {"pairwise_distance",
       [](A a) -> Out { return {pairwise_distance(pair(a), pair(a), a.real(2), a.real(1e-6), a.flag())}; }},
      {"cosine_similarity",
       [](A a) -> Out {
         return {cosine_similarity(a.tensor({a.b, a.t, a.d}), a.tensor({a.t, a.d}), a.axis(3), a.real(1e-8))};
       }},
      {"dice", [](A a) -> Out { return {dice(pair(a), targets(a), a.real(1))}; }},
      {"tversky",
       [](A a) -> Out {
         return {tversky(pair(a), targets(a), {.alpha = a.real(0.5), .beta = a.real(0.5), .smooth = a.real(1)})};
       }},
      {"multiclass_dice",
       [](A a) -> Out {
         return {multiclass_dice(a.tensor({a.b, a.t, a.k}), labels(a),
                                 {.smooth = a.real(1),
                                  .include_background = a.flag(),
                                  .ignore_index = a.number(-100),
                                  .reduction = reduction(a)})};
       }},
      {"dice_cross_entropy",
       [](A a) -> Out {
         return {dice_cross_entropy(a.tensor({a.b, a.t, a.k}), labels(a),
                                    {.dice_weight = a.real(1),
                                     .cross_entropy_weight = a.real(1),
                                     .smooth = a.real(1),
                                     .include_background = a.flag(),
                                     .ignore_index = a.number(-100),
                                     .label_smoothing = a.real(0.1)},
                                    class_weight(a))};
       }},
      {"ctc",
       [](A a) -> Out {
         const Variable x = a.tensor({a.t, a.b, a.k});
         const Variable t = a.draws().one_in(4) ? a.indices({a.b}, a.k) : a.indices({a.b, a.d}, a.k);
         const std::int64_t most = t.defined() && t.value().rank() == 1 ? 2 : a.d + 1;
         return {
             ctc(x, t, a.indices({a.b}, a.t + 1), a.indices({a.b}, most),
                 {.blank = a.number(a.flag() ? 0 : a.k - 1), .reduction = reduction(a), .zero_infinity = a.flag()})};
       }},
  };
  return calls;
}

}  // namespace binade::fuzz
