#include "binade/core/kernels/elementwise.h"

#include "binade/core/kernels/activation.h"
#include "binade/core/kernels/chunk.h"
#include "binade/core/kernels/elementwise_loops.h"

namespace binade::cpu::BINADE_ISA {
namespace {

template <class... D>
bool any_double(D... dtypes) {
  return ((dtypes == DType::f64) || ...);
}

/// The activation whose vector function the float loop of Op calls, or kNone if Op is not an activation. Products with
/// a fused activation call the same function, so both give the same bits.
template <class Op>
inline constexpr Activation kFused = Activation::kNone;
template <>
inline constexpr Activation kFused<ops::Gelu> = Activation::kGelu;
template <>
inline constexpr Activation kFused<ops::GeluTanh> = Activation::kGeluTanh;
template <class Op, class C>
inline constexpr bool kTakesVectors = std::is_same_v<C, float>&& kFused<Op> != Activation::kNone;

/// Ops that can be computed on registers, without a buffer if all operands have one type.
template <class Op>
inline constexpr bool kOnRegisters = kFused<Op> != Activation::kNone;
template <>
inline constexpr bool kOnRegisters<ops::Relu> = true;
template <>
inline constexpr bool kOnRegisters<ops::Add> = true;
template <>
inline constexpr bool kOnRegisters<ops::Sub> = true;
template <>
inline constexpr bool kOnRegisters<ops::Mul> = true;

template <class Op, class T>
[[gnu::always_inline]] inline VFloat value_of(VFloat x, const typename Op::Params& p) {
  if constexpr (kFused<Op> != Activation::kNone)
    return Activated<kFused<Op>, T>{}(x);
  else
    return Op::value(x, p);
}
template <class Op, class T>
[[gnu::always_inline]] inline VFloat gradient_of(VFloat saved, VFloat gy, const typename Op::Params& p) {
  if constexpr (kFused<Op> != Activation::kNone)
    return gy * ActivationDerivative<kFused<Op>, T>{}(saved);
  else
    return Op::gradient(saved, gy, p);
}

/// Computes y[i] = value(TypeTag<T>, x[i]...) for n elements, two registers at a time.
template <class T, class F, class... X>
[[gnu::flatten]] void in_registers_of(std::int64_t n, void* y, const F& value, const X*... x) {
  AmaxObserver amax(kDTypeOf<T>);
  put_row(
      static_cast<T*>(y), n, amax, [&](std::int64_t i, auto part) __attribute__((always_inline)) {
        return value(TypeTag<T>{}, get(static_cast<const T*>(x) + i, part)...);
      });
}

/// Calls in_registers_of() if all operands have one type that is computed in float; otherwise returns false and does
/// nothing.
template <class F, class... X>
bool in_registers(std::int64_t n, const Out& y, const F& value, const X&... x) {
  if (((x.dtype != y.dtype) || ...)) return false;
  switch (y.dtype) {
    case DType::f32: return in_registers_of<float>(n, y.data, value, x.data...), true;
    case DType::f16: return in_registers_of<float16>(n, y.data, value, x.data...), true;
    case DType::bf16: return in_registers_of<bfloat16>(n, y.data, value, x.data...), true;
    default: return false;
  }
}

// [[gnu::flatten]] inlines all calls: a single call inside the loop prevents vectorization (8 times slower for gelu).
template <class Op, class C, class Stored = C>
[[gnu::flatten]] void unary_forward(In x, Out y, std::int64_t n, const typename Op::Params& p) {
  Reader<C> xs(x);
  Writer<C> ys(y);
  const typename Op::Params q = p;
  for_chunks(n, [&](std::int64_t at, std::int64_t count) {
    const C* __restrict from = xs.read(at, count);
    C* __restrict to = ys.target(at);
    if constexpr (kTakesVectors<Op, C>)
      each_group<C>(count, [&](std::int64_t i, auto part) {
        put(to + i, value_of<Op, Stored>(get(from + i, part), q), part);
      });
    else
      for (std::int64_t i = 0; i < count; ++i) to[i] = Op::value(from[i], q);
    ys.done(at, count);
  });
}

template <class Op, class C, class Stored = C>
[[gnu::flatten]] void unary_backward(In saved, In gy, Out gx, std::int64_t n, const typename Op::Params& p) {
  Reader<C> kept(saved), gys(gy);
  Writer<C> gxs(gx);
  const typename Op::Params q = p;
  for_chunks(n, [&](std::int64_t at, std::int64_t count) {
    const C* s = kept.read(at, count);
    const C* g = gys.read(at, count);
    C* __restrict to = gxs.target(at);
    if constexpr (kTakesVectors<Op, C>)
      each_group<C>(count, [&](std::int64_t i, auto part) {
        put(to + i, gradient_of<Op, Stored>(get(s + i, part), get(g + i, part), q), part);
      });
    else
      for (std::int64_t i = 0; i < count; ++i) to[i] = Op::gradient(s[i], g[i], q);
    gxs.done(at, count);
  });
}

template <class Op>
UnaryLoops<Op> unary_loops() {
  using Params = typename Op::Params;
  return {[](In x, Out y, std::int64_t n, const Params& p) {
            if constexpr (kOnRegisters<Op>)
              if (in_registers(
                      n, y, [q = p]<class T>(TypeTag<T>, VFloat v) { return value_of<Op, T>(v, q); }, x))
                return;
            if (any_double(x.dtype, y.dtype)) return unary_forward<Op, double>(x, y, n, p);
            if constexpr (kTakesVectors<Op, float>)
              if (y.dtype == DType::bf16) return unary_forward<Op, float, bfloat16>(x, y, n, p);
            unary_forward<Op, float>(x, y, n, p);
          },
          [](In saved, In gy, Out gx, std::int64_t n, const Params& p) {
            if constexpr (kOnRegisters<Op>)
              if (in_registers(
                      n, gx, [q = p]<class T>(TypeTag<T>, VFloat s, VFloat g) { return gradient_of<Op, T>(s, g, q); },
                      saved, gy))
                return;
            if (any_double(saved.dtype, gy.dtype, gx.dtype)) return unary_backward<Op, double>(saved, gy, gx, n, p);
            if constexpr (kTakesVectors<Op, float>)
              if (gx.dtype == DType::bf16) return unary_backward<Op, float, bfloat16>(saved, gy, gx, n, p);
            unary_backward<Op, float>(saved, gy, gx, n, p);
          }};
}

template <class Op, class C>
[[gnu::flatten]] void binary_forward(Stepped a, Stepped b, Out y, std::int64_t n, const typename Op::Params& p) {
  Reader<C> as(a.x, a.step, n), bs(b.x, b.step, n);
  Writer<C> ys(y);
  map_elements(
      n, ys, [q = p](C u, C v) { return Op::value(u, v, q); }, as, bs);
}

template <class Op, class C>
[[gnu::flatten]] void binary_backward(int which, Stepped a, Stepped b, In gy, Out g, std::int64_t n,
                                      const typename Op::Params& p) {
  Reader<C> as(a.x, a.step, n), bs(b.x, b.step, n), gys(gy);
  Writer<C> gs(g);
  if (which == 0)
    map_elements(
        n, gs, [q = p](C u, C v, C w) { return Op::gradient_a(u, v, w, q); }, as, bs, gys);
  else
    map_elements(
        n, gs, [q = p](C u, C v, C w) { return Op::gradient_b(u, v, w, q); }, as, bs, gys);
}

template <class Op>
BinaryLoops<Op> binary_loops() {
  using Params = typename Op::Params;
  return {[](Stepped a, Stepped b, Out y, std::int64_t n, const Params& p) {
            if constexpr (kOnRegisters<Op>)
              if (a.step == 1 && b.step == 1 &&
                  in_registers(
                      n, y, [q = p]<class T>(TypeTag<T>, VFloat u, VFloat v) { return Op::value(u, v, q); }, a.x, b.x))
                return;
            any_double(a.x.dtype, b.x.dtype, y.dtype) ? binary_forward<Op, double>(a, b, y, n, p)
                                                      : binary_forward<Op, float>(a, b, y, n, p);
          },
          [](int which, Stepped a, Stepped b, In gy, Out g, std::int64_t n, const Params& p) {
            any_double(a.x.dtype, b.x.dtype, gy.dtype, g.dtype) ? binary_backward<Op, double>(which, a, b, gy, g, n, p)
                                                                : binary_backward<Op, float>(which, a, b, gy, g, n, p);
          }};
}

template <class C>
void where_of(Stepped condition, Stepped a, Stepped b, Out y, std::int64_t n) {
  Reader<C> as(a.x, a.step, n), bs(b.x, b.step, n);
  Writer<C> ys(y);
  const std::uint8_t* conditions = static_cast<const std::uint8_t*>(condition.x.data);
  for_chunks(n, [&](std::int64_t at, std::int64_t count) {
    const C* from_a = as.read(at, count);
    const C* from_b = bs.read(at, count);
    C* __restrict to = ys.target(at);
    if (condition.step == 0)
      std::memcpy(to, conditions[0] != 0 ? from_a : from_b, static_cast<std::size_t>(count) * sizeof(C));
    else
      for (std::int64_t i = 0; i < count; ++i) to[i] = conditions[at + i] != 0 ? from_a[i] : from_b[i];
    ys.done(at, count);
  });
}

void where(Stepped condition, Stepped a, Stepped b, Out y, std::int64_t n) {
  any_double(a.x.dtype, b.x.dtype, y.dtype) ? where_of<double>(condition, a, b, y, n)
                                            : where_of<float>(condition, a, b, y, n);
}

template <class C>
void convert_of(In x, Out y, std::int64_t n) {
  Reader<C> xs(x);
  AmaxObserver amax(y.dtype);
  for_chunks(n, [&](std::int64_t at, std::int64_t count) {
    if (y.dtype != kDTypeOf<C>) return round(xs.read(at, count), y.at(at), count, amax);
    C* to = static_cast<C*>(y.at(at).data);
    widen(x.at(at), to, count);
    amax.add(to, count);
  });
}

void convert(In x, Out y, std::int64_t n) {
  any_double(x.dtype, y.dtype) ? convert_of<double>(x, y, n) : convert_of<float>(x, y, n);
}

template <class From, class To>
void accumulate_typed(const void* from, void* to, std::int64_t n) {
  AmaxObserver amax(kDTypeOf<To>);
  put_row(static_cast<To*>(to), n, amax, [&](std::int64_t i, auto part) {
    return get(static_cast<const To*>(to) + i, part) + get(static_cast<const From*>(from) + i, part);
  });
}

/// Calls f(TypeTag) for f32, f16 or bf16.
template <class F>
void with_narrow_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f16: return f(TypeTag<float16>{});
    case DType::bf16: return f(TypeTag<bfloat16>{});
    default: return f(TypeTag<float>{});
  }
}

void accumulate(In from, Out to, std::int64_t n) {
  with_narrow_type(to.dtype, [&]<class To>(TypeTag<To>) {
    with_narrow_type(from.dtype, [&]<class From>(TypeTag<From>) { accumulate_typed<From, To>(from.data, to.data, n); });
  });
}

void observe(In x, std::int64_t n) {
  Reader<float> xs(x);
  AmaxObserver amax(x.dtype);
  for_chunks(n, [&](std::int64_t at, std::int64_t count) { amax.add(xs.read(at, count), count); });
}

template <class... Ops>
OpTable<UnaryLoops, ops::OpList<Ops...>> unary_table(ops::OpList<Ops...>) {
  return {unary_loops<Ops>()...};
}
template <class... Ops>
OpTable<BinaryLoops, ops::OpList<Ops...>> binary_table(ops::OpList<Ops...>) {
  return {binary_loops<Ops>()...};
}

}  // namespace

const ElementwiseKernels& elementwise_kernels() {
  static const ElementwiseKernels kernels{
      unary_table(ops::UnaryOps{}), binary_table(ops::BinaryOps{}), &where, &convert, &accumulate, &observe};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
