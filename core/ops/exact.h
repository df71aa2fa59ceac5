#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>

#include "binade/core/host_device.h"
#include "binade/core/ops/lists.h"

/// Formulas of ops that round nothing: arithmetic of whole numbers, bits, comparisons and truth values. A kernel reads
/// elements of any dtype as std::int64_t, or as double if an operand is floating, and stores a whole number or a truth
/// value (decision 0065). Sums, differences and products wrap around in the result's dtype, as in C's unsigned
/// arithmetic. Ops of one operand ignore b.
namespace binade::ops::exact {

using Whole = std::int64_t;
using Bits = std::uint64_t;

/// Returns an unsigned result, which wraps around, as a signed number. Signed overflow would be undefined.
BINADE_HD Whole wrapped(Bits x) { return static_cast<Whole>(x); }
template <class C>
BINADE_HD C truth(bool x) {
  return x ? C(1) : C(0);
}

struct Add {
  BINADE_HD static Whole of(Whole a, Whole b) { return wrapped(static_cast<Bits>(a) + static_cast<Bits>(b)); }
};
struct Sub {
  static constexpr bool refuses_bool = true;
  BINADE_HD static Whole of(Whole a, Whole b) { return wrapped(static_cast<Bits>(a) - static_cast<Bits>(b)); }
};
struct Mul {
  BINADE_HD static Whole of(Whole a, Whole b) { return wrapped(static_cast<Bits>(a) * static_cast<Bits>(b)); }
};
struct Neg {
  static constexpr bool refuses_bool = true;
  BINADE_HD static Whole of(Whole a, Whole) { return wrapped(-static_cast<Bits>(a)); }
};
/// The remainder, with the sign of a. Returns 0 for b = 0, which the op has rejected before. For b = -1 it does not
/// divide, because the quotient of the smallest integer overflows.
struct Fmod {
  static constexpr bool divides = true;
  BINADE_HD static Whole of(Whole a, Whole b) { return b == 0 || b == -1 ? 0 : a % b; }
};
/// The remainder has the sign of b.
struct Remainder {
  static constexpr bool divides = true;
  BINADE_HD static Whole of(Whole a, Whole b) {
    const Whole r = Fmod::of(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
};
struct FloorDivide {
  static constexpr bool divides = true;
  BINADE_HD static Whole of(Whole a, Whole b) {
    if (b == 0) return 0;
    if (b == -1) return Neg::of(a, 0);
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  }
};
struct Maximum {
  BINADE_HD static Whole of(Whole a, Whole b) { return a < b ? b : a; }
};
struct Minimum {
  BINADE_HD static Whole of(Whole a, Whole b) { return b < a ? b : a; }
};
struct Abs {
  BINADE_HD static Whole of(Whole a, Whole) { return a < 0 ? Neg::of(a, 0) : a; }
};
struct Sign {
  BINADE_HD static Whole of(Whole a, Whole) { return (a > 0) - (a < 0); }
};
struct Relu {
  BINADE_HD static Whole of(Whole a, Whole) { return a > 0 ? a : 0; }
};
struct Square {
  BINADE_HD static Whole of(Whole a, Whole) { return Mul::of(a, a); }
};
/// floor, ceil, round and trunc of a whole number.
struct Same {
  BINADE_HD static Whole of(Whole a, Whole) { return a; }
};

struct BitAnd {
  BINADE_HD static Whole of(Whole a, Whole b) { return a & b; }
};
struct BitOr {
  BINADE_HD static Whole of(Whole a, Whole b) { return a | b; }
};
struct BitXor {
  BINADE_HD static Whole of(Whole a, Whole b) { return a ^ b; }
};
struct LogicalNot;
/// The complement of a stored bool, 0 or 1, is never 0, so bools use the formula `OfBool` instead.
struct BitNot {
  using OfBool = LogicalNot;
  BINADE_HD static Whole of(Whole a, Whole) { return ~a; }
};
/// A shift by fewer than 0 or more than 63 places shifts every bit out.
struct ShiftLeft {
  static constexpr bool refuses_bool = true;
  BINADE_HD static Whole of(Whole a, Whole b) { return b < 0 || b > 63 ? 0 : wrapped(static_cast<Bits>(a) << b); }
};
struct ShiftRight {
  static constexpr bool refuses_bool = true;
  BINADE_HD static Whole of(Whole a, Whole b) { return a >> (b < 0 || b > 63 ? 63 : b); }
};

/// The greatest common divisor; 0 if both numbers are 0. The magnitude of the smallest integer wraps around.
struct Gcd {
  static constexpr bool refuses_bool = true;
  BINADE_HD static Bits magnitude(Whole a) { return a < 0 ? -static_cast<Bits>(a) : static_cast<Bits>(a); }
  BINADE_HD static Whole of(Whole first, Whole second) {
    Bits a = magnitude(first), b = magnitude(second);
    while (b != 0) {
      const Bits rest = a % b;
      a = b;
      b = rest;
    }
    return wrapped(a);
  }
};
/// The least common multiple, at least 0 unless it wraps around; 0 if a or b is 0.
struct Lcm {
  static constexpr bool refuses_bool = true;
  BINADE_HD static Whole of(Whole a, Whole b) {
    if (a == 0 || b == 0) return 0;
    return wrapped(Gcd::magnitude(a) / static_cast<Bits>(Gcd::of(a, b)) * Gcd::magnitude(b));
  }
};

// Comparisons and truth values: C is Whole or double.
struct Equal {
  template <class C>
  BINADE_HD static C of(C a, C b) {
    return truth<C>(a == b);
  }
};
struct NotEqual {
  template <class C>
  BINADE_HD static C of(C a, C b) {
    return truth<C>(a != b);
  }
};
struct Less {
  template <class C>
  BINADE_HD static C of(C a, C b) {
    return truth<C>(a < b);
  }
};
struct LessEqual {
  template <class C>
  BINADE_HD static C of(C a, C b) {
    return truth<C>(a <= b);
  }
};
struct Greater {
  template <class C>
  BINADE_HD static C of(C a, C b) {
    return truth<C>(a > b);
  }
};
struct GreaterEqual {
  template <class C>
  BINADE_HD static C of(C a, C b) {
    return truth<C>(a >= b);
  }
};
struct LogicalAnd {
  template <class C>
  BINADE_HD static C of(C a, C b) {
    return truth<C>(a != 0 && b != 0);
  }
};
struct LogicalOr {
  template <class C>
  BINADE_HD static C of(C a, C b) {
    return truth<C>(a != 0 || b != 0);
  }
};
struct LogicalXor {
  template <class C>
  BINADE_HD static C of(C a, C b) {
    return truth<C>((a != 0) != (b != 0));
  }
};
struct LogicalNot {
  template <class C>
  BINADE_HD static C of(C a, C) {
    return truth<C>(a == 0);
  }
};
struct IsNan {
  template <class C>
  BINADE_HD static C of(C a, C) {
    return truth<C>(a != a);
  }
};
struct IsInf {
  template <class C>
  BINADE_HD static C of(C a, C) {
    return truth<C>(a == a && a - a != 0);
  }
};
struct IsFinite {
  template <class C>
  BINADE_HD static C of(C a, C) {
    return truth<C>(a - a == 0);
  }
};

/// True if F also has a formula for double.
template <class F>
inline constexpr bool kOfReals = requires(double x) {
  { F::of(x, x) } -> std::same_as<double>;
};

}  // namespace binade::ops::exact

namespace binade::ops {

/// All formulas. Kernels identify a formula by its position in this list.
using ExactOps = OpList<
    exact::Add, exact::Sub, exact::Mul, exact::Neg, exact::Fmod, exact::Remainder, exact::FloorDivide, exact::Maximum,
    exact::Minimum, exact::Abs, exact::Sign, exact::Relu, exact::Square, exact::Same, exact::BitAnd, exact::BitOr,
    exact::BitXor, exact::BitNot, exact::ShiftLeft, exact::ShiftRight, exact::Gcd, exact::Lcm, exact::Equal,
    exact::NotEqual, exact::Less, exact::LessEqual, exact::Greater, exact::GreaterEqual, exact::LogicalAnd,
    exact::LogicalOr, exact::LogicalXor, exact::LogicalNot, exact::IsNan, exact::IsInf, exact::IsFinite>;

}  // namespace binade::ops
