#pragma once

#include "binade/autograd/apply.h"
#include "binade/core/ops/cast.h"
#include "binade/core/ops/dropout.h"
#include "binade/core/ops/formulas.h"
#include "binade/core/ops/where.h"

/// Elementwise functions of variables. Formula, dtypes and errors: core/ops/unary.h, core/ops/binary.h and the headers
/// named like the function.
namespace binade {

inline Variable relu(const Variable& x) { return apply_one<ops::Relu>({}, {x}); }
inline Variable gelu(const Variable& x) { return apply_one<ops::Gelu>({}, {x}); }
inline Variable gelu_tanh(const Variable& x) { return apply_one<ops::GeluTanh>({}, {x}); }
inline Variable silu(const Variable& x) { return apply_one<ops::Silu>({}, {x}); }
inline Variable sigmoid(const Variable& x) { return apply_one<ops::Sigmoid>({}, {x}); }
inline Variable tanh(const Variable& x) { return apply_one<ops::Tanh>({}, {x}); }
inline Variable erf(const Variable& x) { return apply_one<ops::Erf>({}, {x}); }
inline Variable exp(const Variable& x) { return apply_one<ops::Exp>({}, {x}); }
inline Variable log(const Variable& x) { return apply_one<ops::Log>({}, {x}); }
inline Variable softplus(const Variable& x) { return apply_one<ops::Softplus>({}, {x}); }
inline Variable sqrt(const Variable& x) { return apply_one<ops::Sqrt>({}, {x}); }
inline Variable pow(const Variable& x, double exponent) { return apply_one<ops::Pow>({exponent}, {x}); }
inline Variable square(const Variable& x) { return apply_one<ops::Square>({}, {x}); }
inline Variable clamp(const Variable& x, double low, double high) { return apply_one<ops::Clamp>({low, high}, {x}); }
inline Variable abs(const Variable& x) { return apply_one<ops::Abs>({}, {x}); }

inline Variable maximum(const Variable& a, const Variable& b) { return apply_one<ops::Maximum>({}, {a, b}); }
inline Variable minimum(const Variable& a, const Variable& b) { return apply_one<ops::Minimum>({}, {a, b}); }
/// Returns a where `condition` (u8 or bool) is true, else b.
inline Variable where(const Variable& condition, const Variable& a, const Variable& b) {
  return apply_one<ops::Where>({}, {condition, a, b});
}

/// Sets each element to 0 with probability p and divides the others by 1 - p. Modules call it in training only.
inline Variable dropout(const Variable& x, double p) { return apply_one<ops::Dropout>({p}, {x}); }
/// Returns x rounded to dtype `to`, or x itself if it has that dtype.
inline Variable cast(const Variable& x, DType to) { return x.dtype() == to ? x : apply_one<ops::Cast>({to}, {x}); }

inline Variable operator+(const Variable& a, const Variable& b) { return apply_one<ops::Add>({}, {a, b}); }
inline Variable operator-(const Variable& a, const Variable& b) { return apply_one<ops::Sub>({}, {a, b}); }
inline Variable operator*(const Variable& a, const Variable& b) { return apply_one<ops::Mul>({}, {a, b}); }
inline Variable operator/(const Variable& a, const Variable& b) { return apply_one<ops::Div>({}, {a, b}); }
inline Variable operator-(const Variable& x) { return apply_one<ops::Neg>({}, {x}); }

inline Variable operator+(const Variable& x, double s) { return apply_one<ops::AddScalar>({s}, {x}); }
inline Variable operator+(double s, const Variable& x) { return apply_one<ops::AddScalar>({s}, {x}); }
inline Variable operator-(const Variable& x, double s) { return apply_one<ops::AddScalar>({-s}, {x}); }
inline Variable operator-(double s, const Variable& x) { return apply_one<ops::ScalarSub>({s}, {x}); }
inline Variable operator*(const Variable& x, double s) { return apply_one<ops::MulScalar>({s}, {x}); }
inline Variable operator*(double s, const Variable& x) { return apply_one<ops::MulScalar>({s}, {x}); }
inline Variable operator/(const Variable& x, double s) { return apply_one<ops::DivScalar>({s}, {x}); }
inline Variable operator/(double s, const Variable& x) { return apply_one<ops::ScalarDiv>({s}, {x}); }

}  // namespace binade
