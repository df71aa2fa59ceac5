#include <optional>

#include "binade/autograd/functions.h"
#include "tests/fuzz/calls.h"

namespace binade::fuzz {
namespace {

using A = Arguments&;
using Out = std::vector<Variable>;

Variable rows(A a) { return a.tensor({a.b, a.t, a.d}); }
/// Two operands that often broadcast.
std::pair<Variable, Variable> pair(A a) {
  Variable x = rows(a);
  return {x, a.flag() ? rows(a) : a.tensor({a.d})};
}
std::optional<int> some_axis(A a) { return a.flag() ? std::optional(a.axis(3)) : std::nullopt; }
QuantileOptions quantile_options(A a) {
  return {.keepdim = a.flag(), .between = static_cast<Quantile>(a.draws().below(5))};
}
std::vector<Variable> parts(A a) {
  std::vector<Variable> list;
  for (std::size_t n = a.draws().below(4); n > 0; --n) list.push_back(a.tensor({a.t, a.d}));
  return list;
}

Out pack(IndexedResult r) { return {r.values, r.indices}; }
Out pack(MinMaxResult r) { return {r.min, r.max}; }
Out pack(SpreadResult r) { return {r.spread, r.mean}; }
Out pack(HistogramResult r) { return {r.counts, r.edges}; }

Out of_histogram(A a) {
  const Variable x = a.tensor({a.t, a.d});
  const HistogramOptions options{.low = a.real(0),
                                 .high = a.real(0),
                                 .weights = a.flag() ? a.parameter({a.t, a.d}) : Variable(),
                                 .density = a.flag()};
  return pack(a.flag() ? histogram(x, a.number(4), options) : histogram(x, a.tensor({a.k}), options));
}

}  // namespace

const std::vector<Call>& name_calls() {
  static const std::vector<Call> all{
      {"lerp",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         if (a.flag()) return {lerp(x, y, a.real(0.5))};
         return {lerp(x, y, a.tensor({a.d}))};
       }},
      {"addcmul",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {addcmul(x, y, rows(a), a.real(1))};
       }},
      {"addcdiv",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {addcdiv(x, y, rows(a), a.real(1))};
       }},
      {"fmax",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {fmax(x, y)};
       }},
      {"fmin",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {fmin(x, y)};
       }},
      {"heaviside",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {heaviside(x, y)};
       }},
      {"logaddexp2",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return {logaddexp2(x, y)};
       }},
      {"logit", [](A a) -> Out { return {logit(a.any(), a.flag() ? std::optional(a.real(0.1)) : std::nullopt)}; }},
      {"deg2rad", [](A a) -> Out { return {deg2rad(a.any())}; }},
      {"rad2deg", [](A a) -> Out { return {rad2deg(a.any())}; }},
      {"signbit", [](A a) -> Out { return {signbit(a.any())}; }},
      {"mvlgamma", [](A a) -> Out { return {mvlgamma(a.any(), static_cast<int>(a.number(2)))}; }},
      {"isclose",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         const CloseOptions options{.rtol = a.real(1e-5), .atol = a.real(1e-8), .equal_nan = a.flag()};
         static_cast<void>(allclose(x, y, options));
         static_cast<void>(equal(x, y));
         return {isclose(x, y, options)};
       }},
      {"isin",
       [](A a) -> Out {
         if (a.flag()) return {isin(a.indices({a.t, a.d}, 9), a.indices({a.k}, 9))};
         return {isin(rows(a), a.tensor({a.k}))};
       }},
      {"nansum", [](A a) -> Out { return {nansum(rows(a), a.axis(3), a.flag())}; }},
      {"nanmean", [](A a) -> Out { return {nanmean(rows(a), a.axis(3), a.flag())}; }},
      {"nanmedian",
       [](A a) -> Out {
         if (a.flag()) return {nanmedian(a.any())};
         return pack(nanmedian(rows(a), a.axis(3), a.flag()));
       }},
      {"quantile",
       [](A a) -> Out {
         if (a.flag()) return {quantile(rows(a), a.real(0.5), some_axis(a), quantile_options(a))};
         return {quantile(rows(a), {a.real(0), a.real(1)}, some_axis(a), quantile_options(a))};
       }},
      {"nanquantile",
       [](A a) -> Out {
         if (a.flag()) return {nanquantile(rows(a), a.real(0.5), some_axis(a), quantile_options(a))};
         return {nanquantile(rows(a), {a.real(0), a.real(1)}, some_axis(a), quantile_options(a))};
       }},
      {"mode",
       [](A a) {
         return pack(mode(a.flag() ? rows(a) : a.indices({a.b, a.t, a.d}, 4), a.axis(3), a.flag()));
       }},
      {"aminmax", [](A a) { return pack(aminmax(rows(a), a.axis(3), a.flag())); }},
      {"var_mean", [](A a) { return pack(var_mean(rows(a), a.axis(3), a.real(1), a.flag())); }},
      {"std_mean", [](A a) { return pack(std_mean(rows(a), a.axis(3), a.real(1), a.flag())); }},
      {"cov",
       [](A a) -> Out {
         CovOptions options{.correction = a.real(1)};
         if (a.flag()) options.frequencies = a.indices({a.d}, 4);
         if (a.flag()) options.weights = a.parameter({a.d});
         return {cov(a.tensor({a.t, a.d}), options)};
       }},
      {"corrcoef",
       [](A a) -> Out {
         return {corrcoef(a.tensor({a.t, a.d}))};
       }},
      {"histogram", of_histogram},
      {"diff",
       [](A a) -> Out {
         const Variable before = a.flag() ? rows(a) : Variable();
         return {diff(rows(a), a.number(1), a.axis(3), before)};
       }},
      {"gradient",
       [](A a) -> Out {
         const int order = static_cast<int>(a.number(1));
         if (a.flag()) return {gradient(rows(a), a.real(1), a.axis(3), order)};
         return {gradient(rows(a), a.tensor({a.d}), -1, order)};
       }},
      {"trapezoid",
       [](A a) -> Out {
         if (a.flag()) return {trapezoid(rows(a), a.real(1), a.axis(3))};
         return {trapezoid(rows(a), a.flag() ? rows(a) : a.tensor({a.d}), -1)};
       }},
      {"cumulative_trapezoid",
       [](A a) -> Out {
         if (a.flag()) return {cumulative_trapezoid(rows(a), a.real(1), a.axis(3))};
         return {cumulative_trapezoid(rows(a), a.flag() ? rows(a) : a.tensor({a.d}), -1)};
       }},
      {"atleast_1d", [](A a) -> Out { return {atleast_1d(a.any())}; }},
      {"atleast_2d", [](A a) -> Out { return {atleast_2d(a.any())}; }},
      {"atleast_3d", [](A a) -> Out { return {atleast_3d(a.any())}; }},
      {"broadcast_tensors",
       [](A a) -> Out {
         const auto [x, y] = pair(a);
         return broadcast_tensors({x, y});
       }},
      {"column_stack", [](A a) -> Out { return {column_stack(parts(a))}; }},
      {"dstack", [](A a) -> Out { return {dstack(parts(a))}; }},
      {"pad_sequence",
       [](A a) -> Out {
         return {pad_sequence({a.tensor({a.t, a.d}), a.tensor({a.k, a.d})}, a.real(0))};
       }},
      {"select_scatter",
       [](A a) -> Out {
         return {select_scatter(rows(a), a.tensor({a.b, a.d}), 1, a.number(0))};
       }},
      {"slice_scatter",
       [](A a) -> Out {
         return {slice_scatter(rows(a), rows(a), a.axis(3), a.number(0), a.number(a.t), a.number(1))};
       }},
      {"diagonal_scatter",
       [](A a) -> Out {
         return {diagonal_scatter(a.tensor({a.t, a.t}), a.tensor({a.t}), a.number(0), a.axis(2), a.axis(2))};
       }},
      {"masked_scatter",
       [](A a) -> Out {
         return {masked_scatter(a.tensor({a.t, a.d}), a.mask({a.d}), a.tensor({a.t, a.d}))};
       }},
      {"cartesian_prod",
       [](A a) -> Out {
         return {cartesian_prod({a.tensor({a.t}), a.tensor({a.d})})};
       }},
      {"combinations", [](A a) -> Out { return {combinations(a.tensor({a.t}), a.number(2), a.flag())}; }},
      {"normalize", [](A a) -> Out { return {normalize(rows(a), a.real(2), a.axis(3), a.real(1e-12))}; }},
      {"softmin", [](A a) -> Out { return {softmin(rows(a), a.axis(3))}; }},
      {"feature_alpha_dropout", [](A a) -> Out { return {feature_alpha_dropout(rows(a), a.real(0.5))}; }},
      {"channel_shuffle",
       [](A a) -> Out {
         return {channel_shuffle(a.tensor({a.b, 2 * a.d}), a.number(2))};
       }},
  };
  return all;
}

}  // namespace binade::fuzz
