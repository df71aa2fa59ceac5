#include "binade/autograd/functions/linalg.h"
#include "tests/fuzz/calls.h"

namespace binade::fuzz {
namespace {

using A = Arguments&;
using Out = std::vector<Variable>;

/// Square matrices. They need not be symmetric: ops for symmetric matrices read one triangle only.
Variable square(A a) { return a.tensor({a.b, a.k, a.k}); }
Variable any_matrix(A a) { return a.tensor({a.b, a.k, a.d}); }
/// Vectors or matrices for the right side of a system of `rows` rows.
Variable right(A a, std::int64_t rows) { return a.flag() ? a.tensor({a.b, rows}) : a.tensor({a.b, rows, a.c}); }
MatrixNorm which(A a) { return static_cast<MatrixNorm>(a.draws().below(8)); }
std::optional<double> tolerance(A a) { return a.flag() ? std::optional(a.real(0.1)) : std::nullopt; }

Out equation(A a) {
  constexpr const char* kTexts[] = {
      "bij,bjk->bik",   "bij,bjk",  "...ij,...jk->...ik", "bij,bkj->bki",       "bij,bjk->", "bii,bij->bj",
      "b...,b...->...", "bij->bji", "bij,bjk->bxk",       "bij,,bjk",           "->",        "",
      "....,b",         "bij-bjk",  "bij,bjk->bb",        "b ij , b jk -> ik b"};
  return {einsum(a.draws().pick(kTexts), {a.tensor({a.b, a.t, a.d}), a.tensor({a.b, a.d, a.k})})};
}

std::vector<Variable> chain(A a) {
  std::vector<Variable> list;
  for (std::size_t n = a.draws().below(5); n > 0; --n) list.push_back(a.tensor({a.d, a.d}));
  return list;
}

}  // namespace

const std::vector<Call>& linalg_calls() {
  static const std::vector<Call> all{
      {"einsum", equation},
      {"dot", [](A a) -> Out { return {dot(a.tensor({a.d}), a.tensor({a.d}))}; }},
      {"vecdot",
       [](A a) -> Out {
         return {vecdot(a.tensor({a.b, a.d}), a.tensor({a.b, a.d}), a.axis(2))};
       }},
      {"mv",
       [](A a) -> Out {
         return {mv(any_matrix(a), a.tensor({a.b, a.d}))};
       }},
      {"outer", [](A a) -> Out { return {outer(a.tensor({a.d}), a.tensor({a.k}))}; }},
      {"tensordot",
       [](A a) -> Out {
         if (a.flag()) return {tensordot(a.tensor({a.b, a.t, a.d}), a.tensor({a.t, a.d, a.k}), a.axis(3))};
         return {tensordot(a.tensor({a.b, a.d}), a.tensor({a.k, a.d}), {a.axis(2)}, {a.axis(2)})};
       }},
      {"kron",
       [](A a) -> Out {
         return {kron(a.tensor({a.t, a.d}), a.tensor({a.r, a.s}))};
       }},
      {"cross",
       [](A a) -> Out {
         return {cross(a.tensor({a.b, 3, a.d}), a.tensor({a.b, 3, a.d}), a.flag() ? 1 : a.axis(3))};
       }},
      {"pdist",
       [](A a) -> Out {
         return {pdist(a.tensor({a.t, a.d}), a.real(2))};
       }},
      {"renorm",
       [](A a) -> Out {
         return {renorm(a.tensor({a.b, a.t, a.d}), a.real(2), a.axis(3), a.real(1))};
       }},
      {"cholesky_inverse", [](A a) -> Out { return {cholesky_inverse(square(a), a.flag())}; }},
      {"lu_solve",
       [](A a) -> Out {
         return {lu_solve(lu_factor(square(a)), a.tensor({a.b, a.k, a.c}))};
       }},
      {"logdet", [](A a) -> Out { return {logdet(square(a))}; }},
      {"tensorinv",
       [](A a) -> Out {
         return {tensorinv(a.tensor({a.t, a.d, a.t, a.d}), static_cast<int>(a.number(2)))};
       }},
      {"tensorsolve",
       [](A a) -> Out {
         const Variable m = a.tensor({a.t, a.d, a.t, a.d}), right_side = a.tensor({a.t, a.d});
         if (a.flag()) return {tensorsolve(m, right_side)};
         return {tensorsolve(m, right_side, {a.axis(4), a.axis(4)})};
       }},
      {"householder_product",
       [](A a) -> Out {
         return {householder_product(a.tensor({a.b, a.d + a.k, a.d}), a.tensor({a.b, a.d}))};
       }},
      {"multi_dot", [](A a) -> Out { return {multi_dot(chain(a))}; }},
      {"addmm",
       [](A a) -> Out {
         return {addmm(a.tensor({a.t, a.k}), a.tensor({a.t, a.d}), a.tensor({a.d, a.k}), a.real(1), a.real(1))};
       }},
      {"addmv",
       [](A a) -> Out {
         return {addmv(a.tensor({a.t}), a.tensor({a.t, a.d}), a.tensor({a.d}), a.real(1), a.real(1))};
       }},
      {"addr",
       [](A a) -> Out {
         return {addr(a.tensor({a.t, a.d}), a.tensor({a.t}), a.tensor({a.d}), a.real(1), a.real(1))};
       }},
      {"baddbmm",
       [](A a) -> Out {
         return {baddbmm(a.tensor({a.b, a.t, a.k}), a.tensor({a.b, a.t, a.d}), a.tensor({a.b, a.d, a.k}), a.real(1),
                         a.real(1))};
       }},
      {"addbmm",
       [](A a) -> Out {
         return {
             addbmm(a.tensor({a.t, a.k}), a.tensor({a.b, a.t, a.d}), a.tensor({a.b, a.d, a.k}), a.real(1), a.real(1))};
       }},
      {"bilinear",
       [](A a) -> Out {
         return {bilinear(a.tensor({a.b, a.r}), a.tensor({a.b, a.s}), a.tensor({a.k, a.r, a.s}), a.parameter({a.k}))};
       }},
      {"cdist",
       [](A a) -> Out {
         return {cdist(a.tensor({a.b, a.r, a.d}), a.tensor({a.b, a.s, a.d}), a.real(2))};
       }},
      {"trace", [](A a) -> Out { return {trace(any_matrix(a))}; }},
      {"block_diag", [](A a) -> Out { return {block_diag(chain(a))}; }},
      {"vander",
       [](A a) -> Out {
         return {vander(a.tensor({a.b, a.d}), a.number(3), a.flag())};
       }},
      {"matrix_power", [](A a) -> Out { return {matrix_power(square(a), a.number(3))}; }},
      {"matrix_exp", [](A a) -> Out { return {matrix_exp(square(a))}; }},
      {"cholesky", [](A a) -> Out { return {cholesky(square(a), a.flag())}; }},
      {"cholesky_solve", [](A a) -> Out { return {cholesky_solve(right(a, a.k), square(a), a.flag())}; }},
      {"lu",
       [](A a) -> Out {
         const auto [p, l, u] = lu(any_matrix(a));
         return {p, l, u};
       }},
      {"lu_factor",
       [](A a) -> Out {
         const auto [factors, pivots, order] = lu_factor(any_matrix(a));
         return {factors, pivots, order};
       }},
      {"det", [](A a) -> Out { return {det(square(a))}; }},
      {"slogdet",
       [](A a) -> Out {
         const auto [sign, logabsdet] = slogdet(square(a));
         return {sign, logabsdet};
       }},
      {"inverse", [](A a) -> Out { return {inverse(square(a))}; }},
      {"solve", [](A a) -> Out { return {solve(square(a), right(a, a.k))}; }},
      {"triangular_solve",
       [](A a) -> Out {
         const bool left = a.flag();
         return {triangular_solve(square(a), left ? right(a, a.k) : a.tensor({a.b, a.c, a.k}),
                                  {.upper = a.flag(), .left = left, .unit = a.flag(), .transpose = a.flag()})};
       }},
      {"qr",
       [](A a) -> Out {
         const auto [q, r] = qr(any_matrix(a), a.flag() ? QrMode::kComplete : QrMode::kReduced);
         return {q, r};
       }},
      {"eigh",
       [](A a) -> Out {
         const auto [w, v] = eigh(square(a));
         return {w, v};
       }},
      {"eigvalsh", [](A a) -> Out { return {eigvalsh(square(a))}; }},
      {"svd",
       [](A a) -> Out {
         const auto [u, s, vh] = svd(any_matrix(a), a.flag());
         return {u, s, vh};
       }},
      {"svdvals", [](A a) -> Out { return {svdvals(any_matrix(a))}; }},
      {"lstsq",
       [](A a) -> Out {
         const auto [x, residuals] = lstsq(any_matrix(a), right(a, a.k));
         return {x, residuals};
       }},
      {"pinv", [](A a) -> Out { return {pinv(any_matrix(a), tolerance(a))}; }},
      {"matrix_rank", [](A a) -> Out { return {matrix_rank(any_matrix(a), tolerance(a))}; }},
      {"matrix_norm", [](A a) -> Out { return {matrix_norm(any_matrix(a), which(a), a.flag())}; }},
      {"vector_norm",
       [](A a) -> Out {
         return {vector_norm(any_matrix(a), a.real(2), a.flag() ? Axes() : Axes(a.axis(3)), a.flag())};
       }},
      {"cond", [](A a) -> Out { return {cond(square(a), which(a))}; }},
  };
  return all;
}

}  // namespace binade::fuzz
