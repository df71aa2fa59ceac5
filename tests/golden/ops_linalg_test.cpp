#include <gtest/gtest.h>

#include <cmath>

#include "binade/autograd/functions.h"
#include "tests/golden/op_case.h"

/// Linear algebra compared with PyTorch's.
namespace binade::golden {
namespace {

using In = const Inputs&;

Function of(Variable (*f)(In)) {
  return [f](const Case&, In in) -> Outputs { return {{"y", f(in)}}; };
}
Function unary(Variable (*f)(const Variable&)) {
  return [f](const Case&, In in) -> Outputs { return {{"y", f(in["x"])}}; };
}
Function binary(Variable (*f)(const Variable&, const Variable&)) {
  return [f](const Case&, In in) -> Outputs { return {{"y", f(in["a"], in["b"])}}; };
}
template <MatrixNorm which>
Function norm_of() {
  return unary([](const Variable& x) { return matrix_norm(x, which); });
}
template <MatrixNorm which>
Function cond_of() {
  return unary([](const Variable& x) { return cond(x, which); });
}
template <int n>
Function power() {
  return unary([](const Variable& x) { return matrix_power(x, n); });
}
template <bool upper, bool unit>
Function triangle() {
  return binary(
      [](const Variable& a, const Variable& b) { return triangular_solve(a, b, {.upper = upper, .unit = unit}); });
}

Variable square(In in) { return matmul(in["x"], in["x"], {.transpose_b = true}); }
Variable symmetric(In in) { return (in["x"] + transpose(in["x"])) * 0.5; }

Outputs factors(const Case&, In in) {
  const auto [p, l, u] = lu(in["x"]);
  return {{"p", p}, {"l", l}, {"u", u}};
}
template <QrMode mode>
Outputs orthogonal(const Case&, In in) {
  const auto [q, r] = qr(in["x"], mode);
  return {{"q", q}, {"r", r}};
}
Outputs eigen(const Case&, In in) {
  const auto [w, v] = eigh(symmetric(in));
  return {{"w", w}, {"v", v}};
}
Outputs singular(const Case&, In in) {
  const auto [u, s, vh] = svd(in["x"], false);
  return {{"u", u}, {"s", s}, {"vh", vh}};
}
Outputs signed_logarithm(const Case&, In in) {
  const auto [sign, y] = slogdet(in["x"]);
  return {{"sign", sign}, {"y", y}};
}
Outputs least_squares(const Case&, In in) {
  const auto [y, rest] = lstsq(in["a"], in["b"]);
  return {{"y", y}, {"rest", rest}};
}
Outputs sums(const Case& c, In in) {
  std::vector<Variable> operands;
  for (const char* name : {"a", "b", "c"})
    if (in[name].defined()) operands.push_back(in[name]);
  return {{"y", einsum(c.text("equation"), operands)}};
}
Outputs distances(const Case& c, In in) {
  const double p = c.text("p") == "inf" ? HUGE_VAL : c.number("p");
  return {{"y", cdist(in["a"], in["b"], p)}};
}

std::map<std::string, Function> decompositions() {
  return {
      {"cholesky", of([](In in) { return cholesky(square(in)); })},
      {"cholesky_upper", of([](In in) { return cholesky(square(in), true); })},
      {"eigh", eigen},
      {"eigvalsh", of([](In in) { return eigvalsh(symmetric(in)); })},
      {"inverse", unary(inverse)},
      {"det", unary(det)},
      {"slogdet", signed_logarithm},
      {"matrix_exp", unary(matrix_exp)},
      {"matrix_power_0", power<0>()},
      {"matrix_power_1", power<1>()},
      {"matrix_power_5", power<5>()},
      {"matrix_power_-2", power<-2>()},
      {"lu", factors},
      {"qr", orthogonal<QrMode::kReduced>},
      {"qr_complete", orthogonal<QrMode::kComplete>},
      {"svd", singular},
      {"svdvals", unary(svdvals)},
      {"pinv", unary([](const Variable& x) { return pinv(x); })},
      {"matrix_rank", unary([](const Variable& x) { return matrix_rank(x); })},
      {"matrix_norm_fro", norm_of<MatrixNorm::kFrobenius>()},
      {"matrix_norm_nuc", norm_of<MatrixNorm::kNuclear>()},
      {"matrix_norm_1", norm_of<MatrixNorm::kOne>()},
      {"matrix_norm_-1", norm_of<MatrixNorm::kMinusOne>()},
      {"matrix_norm_2", norm_of<MatrixNorm::kTwo>()},
      {"matrix_norm_-2", norm_of<MatrixNorm::kMinusTwo>()},
      {"matrix_norm_inf", norm_of<MatrixNorm::kInf>()},
      {"matrix_norm_-inf", norm_of<MatrixNorm::kMinusInf>()},
      {"cond_2", cond_of<MatrixNorm::kTwo>()},
      {"cond_-2", cond_of<MatrixNorm::kMinusTwo>()},
      {"cond_1", cond_of<MatrixNorm::kOne>()},
      {"solve", binary(solve)},
      {"triangular_solve_lower", triangle<false, false>()},
      {"triangular_solve_lower_unit", triangle<false, true>()},
      {"triangular_solve_upper", triangle<true, false>()},
      {"triangular_solve_upper_unit", triangle<true, true>()},
      {"triangular_solve_right",
       binary([](const Variable& a, const Variable& b) { return triangular_solve(a, b, {.left = false}); })},
      {"cholesky_solve", binary([](const Variable& a, const Variable& b) {
         return cholesky_solve(b, cholesky(matmul(a, a, {.transpose_b = true})));
       })},
      {"lstsq", least_squares},
      {"lstsq_solution", binary([](const Variable& a, const Variable& b) { return lstsq(a, b).solution; })},
  };
}

std::map<std::string, Function> products() {
  return {
      {"einsum", sums},
      {"cdist", distances},
      {"dot", binary(dot)},
      {"outer", binary(outer)},
      {"mv", binary(mv)},
      {"vecdot", binary([](const Variable& a, const Variable& b) { return vecdot(a, b); })},
      {"cross", binary([](const Variable& a, const Variable& b) { return cross(a, b); })},
      {"tensordot_2", binary([](const Variable& a, const Variable& b) { return tensordot(a, b); })},
      {"tensordot_axes", binary([](const Variable& a, const Variable& b) {
         return tensordot(a, b, {0, 2}, {1, 0});
       })},
      {"kron", binary(kron)},
      {"multi_dot", of([](In in) {
         return multi_dot({in["a"], in["b"], in["c"]});
       })},
      {"addmm", of([](In in) { return addmm(in["x"], in["a"], in["b"], 0.5, 2); })},
      {"addmv", of([](In in) { return addmv(in["x"], in["a"], in["b"], 0.5, 2); })},
      {"addr", of([](In in) { return addr(in["x"], in["a"], in["b"], 0.5, 2); })},
      {"baddbmm", of([](In in) { return baddbmm(in["x"], in["a"], in["b"], 0.5, 2); })},
      {"addbmm", of([](In in) { return addbmm(in["x"], in["a"], in["b"], 0.5, 2); })},
      {"bilinear", of([](In in) { return bilinear(in["a"], in["b"], in["w"], in["bias"]); })},
      {"trace", unary(trace)},
      {"block_diag", of([](In in) {
         return block_diag({in["a"], in["b"]});
       })},
      {"vander", unary([](const Variable& x) { return vander(x); })},
      {"vander_descending_4", unary([](const Variable& x) { return vander(x, 4, false); })},
  };
}

TEST(GoldenOps, LinearAlgebraMatchesPyTorch) {
  std::map<std::string, Function> functions = decompositions();
  functions.merge(products());
  check_family("linalg", functions);
}

}  // namespace
}  // namespace binade::golden
