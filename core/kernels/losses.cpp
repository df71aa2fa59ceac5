#include "binade/core/kernels/losses.h"

#include "binade/core/kernels/chunk.h"
#include "binade/core/kernels/exponentials.h"
#include "binade/core/kernels/loss_loops.h"
#include "binade/core/math.h"

namespace binade::cpu::BINADE_ISA {
namespace {

template <class Op, class C>
[[gnu::flatten]] void sum_of(In x, In t, std::int64_t n, const typename Op::Params& p, void* sum) {
  Reader<C> xs(x), ts(t);
  LaneSum<C> lanes;
  alignas(64) C values[kChunk];
  const typename Op::Params q = p;
  for_chunks(n, [&](std::int64_t at, std::int64_t count) {
    const C* from_x = xs.read(at, count);
    const C* from_t = ts.read(at, count);
    for (std::int64_t i = 0; i < count; ++i) values[i] = Op::value(from_x[i], from_t[i], q);
    lanes.add(values, count);
  });
  *static_cast<C*>(sum) = lanes.total();
}

template <class Op, class C>
[[gnu::flatten]] void gradient_of(int which, In x, In t, C scale, Out g, std::int64_t n, const typename Op::Params& p) {
  Reader<C> xs(x), ts(t);
  Writer<C> gs(g);
  if (which == 0)
    map_elements(
        n, gs, [scale, q = p](C u, C v) { return scale * Op::gradient_x(u, v, q); }, xs, ts);
  else
    map_elements(
        n, gs, [scale, q = p](C u, C v) { return scale * Op::gradient_t(u, v, q); }, xs, ts);
}

template <class Op, class C>
[[gnu::flatten]] void values_of(In x, In t, Out y, std::int64_t n, const typename Op::Params& p) {
  Reader<C> xs(x), ts(t);
  Writer<C> ys(y);
  map_elements(
      n, ys, [q = p](C u, C v) { return Op::value(u, v, q); }, xs, ts);
}

template <class Op, class C>
[[gnu::flatten]] void gradients_of(int which, In x, In t, In gy, Out g, std::int64_t n, const typename Op::Params& p) {
  Reader<C> xs(x), ts(t), gys(gy);
  Writer<C> gs(g);
  if (which == 0)
    map_elements(
        n, gs, [q = p](C u, C v, C w) { return w * Op::gradient_x(u, v, q); }, xs, ts, gys);
  else
    map_elements(
        n, gs, [q = p](C u, C v, C w) { return w * Op::gradient_t(u, v, q); }, xs, ts, gys);
}

template <class Op>
LossLoops<Op> loss_loops() {
  using Params = typename Op::Params;
  return {[](In x, In t, std::int64_t n, const Params& p, void* sum) {
            x.dtype == DType::f64 ? sum_of<Op, double>(x, t, n, p, sum) : sum_of<Op, float>(x, t, n, p, sum);
          },
          [](int which, In x, In t, double scale, Out g, std::int64_t n, const Params& p) {
            if (x.dtype == DType::f64)
              gradient_of<Op, double>(which, x, t, scale, g, n, p);
            else
              gradient_of<Op, float>(which, x, t, static_cast<float>(scale), g, n, p);
          },
          [](In x, In t, Out y, std::int64_t n, const Params& p) {
            x.dtype == DType::f64 ? values_of<Op, double>(x, t, y, n, p) : values_of<Op, float>(x, t, y, n, p);
          },
          [](int which, In x, In t, In gy, Out g, std::int64_t n, const Params& p) {
            x.dtype == DType::f64 ? gradients_of<Op, double>(which, x, t, gy, g, n, p)
                                  : gradients_of<Op, float>(which, x, t, gy, g, n, p);
          }};
}
template <class... Ops>
OpTable<LossLoops, ops::OpList<Ops...>> loss_table(ops::OpList<Ops...>) {
  return {loss_loops<Ops>()...};
}

template <class C>
void dice_of(In x, In t, std::int64_t n, void* results) {
  Reader<C> xs(x), ts(t);
  LaneSum<C> product, of_x, of_t;
  alignas(64) C products[kChunk];
  for_chunks(n, [&](std::int64_t at, std::int64_t count) {
    const C* from_x = xs.read(at, count);
    const C* from_t = ts.read(at, count);
    for (std::int64_t i = 0; i < count; ++i) products[i] = from_x[i] * from_t[i];
    product.add(products, count);
    of_x.add(from_x, count);
    of_t.add(from_t, count);
  });
  C* const sums = static_cast<C*>(results);
  sums[0] = product.total();
  sums[1] = of_x.total();
  sums[2] = of_t.total();
}

template <class C>
void affine_of(In other, C offset, C factor, Out g, std::int64_t n) {
  Reader<C> others(other);
  Writer<C> gs(g);
  map_elements(
      n, gs, [=](C x) { return offset - factor * x; }, others);
}

template <class C>
[[gnu::flatten]] void row_statistics_of(In x, std::int64_t n, bool distances, void* results) {
  Reader<C> xs(x);
  RowMax<C> largest;
  for_chunks(n, [&](std::int64_t at, std::int64_t count) { largest.add(xs.read(at, count), count); });
  const C max = largest.total();
  ExponentialSum<C> sum;
  Vector<C> distance{};
  for_chunks(n, [&](std::int64_t at, std::int64_t count) {
    xs.prefetch(n + at, count);  // the next row
    const C* from = xs.read(at, count);
    sum.add(from, max, count, [](auto&&...) {});
    if (!distances) return;
    distance += sum_of_groups<C>(count, [&](const Vector<C>& so_far, std::int64_t i, auto part) {
      return so_far + keep(get(from + i, part) - max, part);
    });
  });
  C* const three = static_cast<C*>(results);
  three[0] = max;
  three[1] = sum.total();
  three[2] = sum_lanes(distance);
}

template <class C>
[[gnu::flatten]] void row_gradient_of(In x, std::int64_t n, const void* row_statistics, double row_scale,
                                      double label_share, double at_target_value, std::int64_t target, Out gx) {
  const C* const statistics = static_cast<const C*>(row_statistics);
  const C scale = static_cast<C>(row_scale), share = static_cast<C>(label_share);
  const C at_target = static_cast<C>(at_target_value);
  Reader<C> xs(x);
  Writer<C> gxs(gx);
  const Vector<C> max = splat(statistics[0]), per_sum = splat(1 / statistics[1]);
  for_chunks(n, [&](std::int64_t at, std::int64_t count) {
    const C* from = xs.read(at, count);
    C* to = gxs.target(at);  // may alias `from`
    const bool hit = target >= at && target < at + count;
    const C share_of_target = hit ? exp_of(from[target - at] - max[0]) * per_sum[0] : C(0);
    each_group<C>(count, [&](std::int64_t i, auto part) {
      put(to + i, splat(scale) * (exp(get(from + i, part) - max) * per_sum - splat(share)), part);
    });
    if (hit) to[target - at] = scale * (share_of_target - share - at_target);
    gxs.done(at, count);
  });
}

}  // namespace

const LossKernels& loss_kernels() {
  static const LossKernels kernels{loss_table(ops::ElementLosses{}), &call_for_dtype<dice_of<double>, dice_of<float>>,
                                   [](In other, double offset, double factor, Out g, std::int64_t n, bool is_double) {
                                     if (is_double)
                                       affine_of<double>(other, offset, factor, g, n);
                                     else
                                       affine_of<float>(other, static_cast<float>(offset), static_cast<float>(factor),
                                                        g, n);
                                   },
                                   &call_for_dtype<row_statistics_of<double>, row_statistics_of<float>>,
                                   &call_for_dtype<row_gradient_of<double>, row_gradient_of<float>>};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
