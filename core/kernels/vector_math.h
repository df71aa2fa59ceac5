#pragma once

#include "binade/core/kernels/simd.h"

/// Elementary functions on vectors. core/math.h has them for scalars, but loops over those, without fused
/// multiply-adds, are slower. Only for sources in `kernel_sources` (meson.build).
namespace binade::cpu::BINADE_ISA {

/// Return the larger and the smaller of two values; b if either is NaN.
[[gnu::always_inline]] inline VFloat larger(const VFloat& a, const VFloat& b) {
#if defined(__AVX512F__)
  return (VFloat)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (VFloat)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return a > b ? a : b;
#endif
}
[[gnu::always_inline]] inline VFloat smaller(const VFloat& a, const VFloat& b) {
#if defined(__AVX512F__)
  return (VFloat)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (VFloat)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return a < b ? a : b;
#endif
}
inline Vector<double> larger(const Vector<double>& a, const Vector<double>& b) { return a > b ? a : b; }

/// Return x, or the limit if x is smaller (at_least) or larger (at_most). NaN stays.
[[gnu::always_inline]] inline VFloat at_least(VFloat x, float limit) { return larger(splat(limit), x); }
[[gnu::always_inline]] inline VFloat at_most(VFloat x, float limit) { return smaller(splat(limit), x); }

/// Evaluates a polynomial with coefficients from the highest power down.
template <class... Rest>
[[gnu::always_inline]] inline VFloat horner(VFloat x, float highest, Rest... rest) {
  VFloat y = splat(highest);
  ((y = multiply_add(y, x, splat(rest))), ...);
  return y;
}

#if defined(__AVX512F__)
inline constexpr bool kTable = true;
/// 2^(j / 16), in one register, for AVX-512.
alignas(64) inline constexpr float kSixteenths[16] = {1.0f,        1.04427373f, 1.09050775f, 1.13878858f,
                                                      1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f,
                                                      1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
                                                      1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f};
#else
inline constexpr bool kTable = false;
#endif

/// n + kRound has the nearest integer to n, or with kTable the nearest sixteenth, in the low bits of the float.
inline constexpr float kRound = kTable ? 0x1.8p19f : 0x1.8p23f;

/// A power as `significand` 2^floor(n). Adding `exponent` to the bits of a float multiplies it by 2^(floor(n) +
/// kScale). With kTable, n is a multiple of 1/16 (Tang, "Table-driven implementation of the exponential function in
/// IEEE floating-point arithmetic", TOMS 1989), which halves the number of terms of the polynomial.
struct Power {
  VFloat significand, n;
  VInt exponent;

  /// Represents 2^multiple (1 + above), where `shifted` is multiple + kRound + kScale.
  [[gnu::always_inline]] Power(VFloat shifted, VFloat multiple, VFloat above) : n(multiple) {
#if defined(__AVX512F__)
    const VFloat sixteenth = (VFloat)_mm512_permutexvar_ps((__m512i)shifted, _mm512_load_ps(kSixteenths));
    significand = multiply_add(sixteenth, above, sixteenth);
    exponent = ((VInt)shifted << 19) & ~0x7fffff;
#else
    significand = above + 1.0f;
    exponent = (VInt)shifted << 23;
#endif
  }

  /// Returns the power, 0 if x < lowest. n is between -150 and 128.
  [[gnu::always_inline]] VFloat value(VFloat x, float lowest) const {
#if defined(__AVX512F__)
    // Lanes below `lowest` are masked out, so that they cause no subnormals.
    const __mmask16 counts = _mm512_cmp_ps_mask((__m512)x, (__m512)splat(lowest), _CMP_NLT_UQ);
    return (VFloat)_mm512_maskz_scalef_ps(counts, (__m512)significand, (__m512)n);
#else
    // The power is applied as two factors, since a single one could leave the exponent's range.
    const VInt whole = exponent >> 23, half = whole >> 1;
    const VFloat y = significand * (VFloat)((half + 127) << 23) * (VFloat)((whole - half + 127) << 23);
    return x < lowest ? VFloat{} : y;
#endif
  }
  /// Returns the power times 2^kScale. REQUIRES that neither 2^kScale nor the result leaves the normal numbers.
  [[gnu::always_inline]] VFloat held() const { return (VFloat)((VInt)significand + exponent); }
};

/// e^(x + rest) to 1 ulp; `rest` is an optional small correction. Cody and Waite's reduction, then the polynomial of
/// math::exp_sum or, with a table, the Taylor series to r^3, whose remainder is below 2^-26.
template <int kScale, class... Rest>
[[gnu::always_inline]] inline Power power_of_e(VFloat x, Rest... rest) {
  const VFloat shifted = multiply_add(x, splat(1.44269504f), splat(kRound + kScale)), n = shifted - (kRound + kScale);
  VFloat r = multiply_add(n, splat(-0.693359375f), x);  // ln 2 in two parts; the first has 9 bits: n times it is exact
  r = (multiply_add(n, splat(2.12194440e-4f), r) + ... + rest);
  if constexpr (kTable) return {shifted, n, horner(r, 1.0f / 6, 0.5f, 1.0f) * r};
  return {shifted, n,
          horner(r, 1.381459837e-03f, 8.368716898e-03f, 4.166838805e-02f, 1.666652063e-01f, 4.999999345e-01f, 1.0f) *
              r};
}
/// 2^x to 1 ulp, or to 18 bits if kCoarse: minimax fits, and with a table the Taylor series.
template <int kScale, bool kCoarse>
[[gnu::always_inline]] inline Power power_of_two(VFloat x) {
  const VFloat shifted = x + (kRound + kScale), n = shifted - (kRound + kScale), r = x - n;
  if constexpr (kTable && kCoarse) return {shifted, n, horner(r, 0.240226507f, 0.693147181f) * r};
  if constexpr (kTable) return {shifted, n, horner(r, 0.0555041087f, 0.240226507f, 0.693147181f) * r};
  if constexpr (kCoarse)
    return {shifted, n, horner(r, 9.582871571e-03f, 5.590650067e-02f, 2.402409911e-01f, 6.931241751e-01f) * r};
  return {shifted, n,
          horner(r, 1.559467782e-04f, 1.340664341e-03f, 9.617692791e-03f, 5.550310388e-02f, 2.402265221e-01f,
                 6.931472421e-01f) *
              r};
}

/// Returns e^x, to 1 ulp on [-103.9, 89], exactly 0 below (a masked logit must have no weight) and inf above. NaN
/// stays.
inline VFloat exp(VFloat x) { return power_of_e<0>(at_most(at_least(x, -104.0f), 89.0f)).value(x, -103.9f); }
/// Returns 2^x for x <= 128, to 1 ulp; exactly 0 below -149.9. NaN stays.
[[gnu::always_inline]] inline VFloat exp2(VFloat x) { return power_of_two<0, false>(x).value(x, -149.9f); }
/// Returns 2^x to 18 bits, for results that are stored in 16 bits; 0 if the result is not a normal number.
[[gnu::always_inline]] inline VFloat exp2_for_halves(VFloat x) { return power_of_two<0, true>(x).value(x, -126.0f); }

/// Returns 2^kScale exp(x + rest) to 1 ulp. REQUIRES that neither the result nor 2^kScale leaves the normal numbers.
/// Undefined if x is NaN.
template <int kScale, class... Rest>
[[gnu::always_inline]] inline VFloat exp_scaled(VFloat x, Rest... rest) {
  return power_of_e<kScale>(x, rest...).held();
}
/// Returns 2^(x + 64) to 18 bits, for -214 <= x <= 63. With the factor 2^64, results far below 1 are still normal
/// numbers.
[[gnu::always_inline]] inline VFloat exp2_scaled(VFloat x) { return power_of_two<64, true>(x).held(); }

/// gate = 1 / (1 + exp(-2 u)), or 0 if that underflows, with u = sqrt(2 / pi) (x + 0.044715 x^3);
/// exponential = 2^-64 exp(-2 u). REQUIRES a finite x.
struct TanhGate {
  VFloat gate, exponential;
};
[[gnu::always_inline]] inline TanhGate tanh_gate(VFloat x, VFloat square) {
  const VFloat argument = x * multiply_add(square, splat(-0.071354814f), splat(-1.5957691f));
  const VFloat e = exp_scaled<-64>(at_most(at_least(argument, -40.0f), 104.0f));
  const VFloat gate = 0x1p-64f / (0x1p-64f + e);
  return {argument > 104.0f ? VFloat{} : gate, e};
}

/// Return math::gelu_tanh and its derivative, within a few ulp.
[[gnu::always_inline]] inline VFloat gelu_tanh(VFloat x) { return x * tanh_gate(x, x * x).gate; }
[[gnu::always_inline]] inline VFloat gelu_tanh_derivative(VFloat x, VFloat square, const TanhGate& s) {
  const VFloat bell = s.gate * 0x1p64f * (s.gate * s.exponential);  // gate (1 - gate)
  return multiply_add(x * bell, multiply_add(square, splat(0.21406444f), splat(1.5957691f)), s.gate);
}
[[gnu::always_inline]] inline VFloat gelu_tanh_derivative(VFloat x) {
  const VFloat held = at_most(at_least(x, -40.0f), 40.0f);  // beyond 40 the bell is 0, and 0 times infinity is NaN
  return gelu_tanh_derivative(held, held * held, tanh_gate(held, held * held));
}

/// With a = |x|: probability = Phi(-a) as in math::normal_tail, density = exp(-a^2 / 2); gelu and its derivative
/// follow. All within a few ulp.
struct NormalTail {
  VFloat probability, density;
};
[[gnu::always_inline]] inline NormalTail normal_tail(VFloat x) {
  const VFloat magnitude = (VFloat)((VInt)x & 0x7fffffff);
  const VFloat a = at_most(magnitude, 14.4f);
  // a^2 / 2 to more than 24 bits: the head has 12 of them, so its square is exact.
  const VFloat head = (VFloat)((VWord)a & 0xfffff000u);
  const VFloat e = exp_scaled<64>(head * head * -0.5f, (a - head) * (a + head) * -0.5f);
  const VFloat density = e * (magnitude > 14.4f ? VFloat{} : splat(0x1p-64f));
  const VFloat t = 4.0f / (a + 4.0f);
  const VFloat p = horner(t, 1.695148893e-02f, -6.486594317e-02f, 5.667350626e-02f, 2.152045155e-02f, 1.867139247e-02f,
                          8.333030817e-02f, 7.320002209e-02f, 9.524599998e-02f, 9.952673375e-02f, 9.974604433e-02f);
  return {p * t * density, density};
}
[[gnu::always_inline]] inline VFloat gelu(VFloat x) {
  const VFloat tail = normal_tail(x).probability;
  return x * (x >= 0.0f ? 1.0f - tail : tail);
}
[[gnu::always_inline]] inline VFloat gelu_derivative(VFloat x) {
  const NormalTail tail = normal_tail(x);
  const VFloat held = at_most(at_least(x, -40.0f), 40.0f);
  const VFloat gate = x >= 0.0f ? 1.0f - tail.probability : tail.probability;
  return multiply_add(held, tail.density * 0.3989422804f, gate);
}

/// Faster gelu_tanh and derivative for bf16 results (8 bits): an exponential of 18 bits and, where the CPU has an
/// approximate reciprocal of 14 bits, a Newton step from it.
[[gnu::always_inline]] inline TanhGate tanh_gate_in_bf16(VFloat x, VFloat square) {
  const VFloat argument = x * multiply_add(square, splat(-0.10294324f), splat(-2.3022082f));
  const VFloat e = exp2_scaled(at_most(at_least(argument, -57.0f), 150.0f) - 128.0f);
  const VFloat sum = e + 0x1p-64f;
#if defined(__AVX512F__)
  const VFloat guess = (VFloat)_mm512_rcp14_ps((__m512)sum);
  return {guess * multiply_add(-guess, sum, splat(2.0f)) * 0x1p-64f, e};
#else
  return {0x1p-64f / sum, e};
#endif
}
[[gnu::always_inline]] inline VFloat gelu_tanh_in_bf16(VFloat x) { return x * tanh_gate_in_bf16(x, x * x).gate; }
[[gnu::always_inline]] inline VFloat gelu_tanh_derivative_in_bf16(VFloat x) {
  const VFloat held = at_most(at_least(x, -40.0f), 40.0f);
  return gelu_tanh_derivative(held, held * held, tanh_gate_in_bf16(held, held * held));
}

/// Faster gelu and derivative for bf16 results (8 bits): no division and shorter fits. With a = |x|: Phi(-a) is 2 to
/// the power of a polynomial, to 16 bits if a < 4 and 12 at 14.4; the derivative's tail, Phi(-a) - a phi(a), is
/// exp(-a^2 / 2) times a polynomial, to 2^-15. Weighted minimax fits.
[[gnu::always_inline]] inline VFloat gelu_in_bf16(VFloat x) {
  const VFloat magnitude = (VFloat)((VInt)x & 0x7fffffff);
  const VFloat a = at_most(magnitude, 14.4f);
  const VFloat held = exp2_scaled(horner(a, -1.945845929e-09f, 1.437783794e-07f, -4.638734480e-06f, 8.655260899e-05f,
                                         -1.047497499e-03f, 8.803154342e-03f, -5.433567613e-02f, -4.582720399e-01f,
                                         -1.151261092e+00f, -1.0f));
  const VFloat tail = held * (magnitude > 14.4f ? VFloat{} : splat(0x1p-64f));
  return x * (x >= 0.0f ? 1.0f - tail : tail);
}
[[gnu::always_inline]] inline VFloat gelu_derivative_in_bf16(VFloat x) {
  const VFloat magnitude = (VFloat)((VInt)x & 0x7fffffff);
  const VFloat a = at_most(magnitude, 14.4f);
  const VFloat p = horner(a, 8.719230199e-11f, -7.026359494e-09f, 2.477142971e-07f, -5.035600680e-06f, 6.560287875e-05f,
                          -5.774681340e-04f, 3.544976003e-03f, -1.556451060e-02f, 5.032698065e-02f, -1.246693328e-01f,
                          2.469723225e-01f, -7.974548936e-01f, 0.5f);
  const VFloat tail = exp2_scaled(a * a * -0.72134752f) * p * (magnitude > 14.4f ? VFloat{} : splat(0x1p-64f));
  return x >= 0.0f ? 1.0f - tail : tail;
}

}  // namespace binade::cpu::BINADE_ISA
