#include "binade/core/ops/linalg_exp.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "binade/core/ops/linalg_formulas.h"
#include "binade/core/ops/linalg_tensors.h"
#include "binade/core/ops/where.h"

namespace binade::ops {
namespace {

using A = TensorAlgebra;

// Coefficients of the approximants, lowest power first. pade() divides them by the first one.
constexpr double kPade13[] = {64764752532480000.,
                              32382376266240000.,
                              7771770303897600.,
                              1187353796428800.,
                              129060195264000.,
                              10559470521600.,
                              670442572800.,
                              33522128640.,
                              1323241920.,
                              40840800.,
                              960960.,
                              16380.,
                              182.,
                              1.};
constexpr double kPade7[] = {17297280., 8648640., 1995840., 277200., 25200., 1512., 56., 1.};
constexpr double kLimit13 = 5.371920351148152, kLimit7 = 3.925724783138660;

/// Returns how often each matrix (…, n, n) must be halved so that its 1-norm is at most `limit`; -1 if it is not
/// finite.
std::vector<int> halvings_of(const Tensor& a, double limit) {
  const std::int64_t n = a.dim(-1);
  const std::vector<double> values = a.to_vector<double>();
  std::vector<int> halvings;
  for (std::int64_t m = 0; m < batch_of(a.shape()); ++m) {
    double norm = 0;
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < n; ++i) sum += std::abs(values[static_cast<std::size_t>((m * n + i) * n + j)]);
      norm = sum <= norm ? norm : sum;
    }
    int s = 0;
    while (std::isfinite(norm) && norm > limit) {
      norm /= 2;
      ++s;
    }
    halvings.push_back(std::isfinite(norm) ? s : -1);
  }
  return halvings;
}

/// Returns f(halvings) of each matrix as a tensor (…, 1, 1).
template <class F>
Tensor for_each_matrix(const Tensor& a, const std::vector<int>& halvings, DType dtype, F&& f) {
  std::vector<double> values;
  for (const int s : halvings) values.push_back(f(s));
  return Tensor::from(values, batched(a, {1, 1})).to(dtype).to(a.device());
}

/// Returns the sum over i of c[i] powers[i].
Tensor polynomial(std::span<const Tensor> powers, std::initializer_list<double> c) {
  Tensor sum;
  std::size_t i = 0;
  for (const double factor : c) {
    const Tensor term = A::scaled(powers[i++], factor);
    sum = sum.defined() ? A::add(sum, term) : term;
  }
  return sum;
}

/// Returns the approximant of exp(x).
Tensor pade(const Tensor& x) {
  const Tensor x2 = A::matmul(x, x), x4 = A::matmul(x2, x2), x6 = A::matmul(x4, x2);
  const std::array powers{A::eye(x.dim(-1), x), x2, x4, x6};
  const std::array high{x2, x4, x6};
  Tensor odd, even;
  if (x.dtype() == DType::f64) {
    const auto c = [](int i) { return kPade13[i] / kPade13[0]; };
    odd = A::add(polynomial(powers, {c(1), c(3), c(5), c(7)}), A::matmul(x6, polynomial(high, {c(9), c(11), c(13)})));
    even = A::add(polynomial(powers, {1, c(2), c(4), c(6)}), A::matmul(x6, polynomial(high, {c(8), c(10), c(12)})));
  } else {
    const auto c = [](int i) { return kPade7[i] / kPade7[0]; };
    odd = polynomial(powers, {c(1), c(3), c(5), c(7)});
    even = polynomial(powers, {1, c(2), c(4), c(6)});
  }
  odd = A::matmul(x, odd);
  const LuFactors denominator = lu_factors(A::sub(even, odd));
  return lu_solve(denominator.lu, denominator.order, A::add(even, odd), false);
}

Tensor exponential(const Tensor& a) {
  if (a.numel() == 0) return a;
  const std::vector<int> halvings = halvings_of(a, a.dtype() == DType::f64 ? kLimit13 : kLimit7);
  const Tensor scale = for_each_matrix(a, halvings, a.dtype(), [](int s) { return s < 0 ? NAN : std::ldexp(1.0, -s); });
  Tensor y = pade(A::mul(a, scale));
  const int most = std::ranges::max(halvings);
  for (int round = 0; round < most; ++round) {
    const Tensor squares = for_each_matrix(a, halvings, DType::boolean,
                                           [round](int s) { return s > round ? 1.0 : 0.0; });
    const auto chosen = [&](const Tensor& where_true, const Tensor& where_false) {
      OpContext ctx;
      ctx.store_dtype = y.dtype();
      ctx.inputs.resize(3);
      return Where::forward(ctx, std::array{squares, where_true, where_false}, {}).front();
    };
    // Matrices that need no more squarings are replaced by 0: their squares could overflow, which an observer would
    // report.
    const Tensor unfinished = chosen(y, Tensor::zeros({}, y.dtype(), y.device()));
    y = chosen(A::matmul(unfinished, unfinished), y);
  }
  return y;
}

}  // namespace

Tensors MatrixExp::forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
  check_square(info, in[0]);
  ctx.save(in[0]);
  return {exponential(computed(in[0])).to(ctx.store_dtype)};
}

void MatrixExp::backward(const OpContext& ctx, std::span<const Tensor> gy, GradSink& gx, const Params&) {
  if (!gx.needs(0)) return;
  const Tensor a = computed(ctx.saved(0, info.name));
  put(ctx, gx, 0, a.numel() == 0 ? a : formulas::matrix_exp<A>(a, gradient_or_zeros(gy, 0, a)));
}

}  // namespace binade::ops
