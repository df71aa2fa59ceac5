#include "binade/core/kernels/softmax.h"

#include "binade/core/kernels/chunk.h"
#include "binade/core/kernels/exponentials.h"
#include "binade/core/kernels/scratch.h"
#include "binade/core/math.h"

namespace binade::cpu::BINADE_ISA {
namespace {

/// Each exponential is computed once and kept until the sum is known: in y, or in scratch if y is narrower than C. The
/// next row is prefetched meanwhile, because memory would otherwise be idle.
template <class C>
[[gnu::flatten]] void softmax_of(In x, Out y, std::int64_t n, bool log) {
  Reader<C> xs(x);
  RowMax<C> largest;
  for_chunks(n, [&](std::int64_t at, std::int64_t count) { largest.add(xs.read(at, count), count); });
  const C max = largest.total();
  const auto bytes = static_cast<std::size_t>(n) * sizeof(C);
  C* exponential = static_cast<C*>(y.dtype == kDTypeOf<C> ? y.data : scratch(ScratchSlot::kShared, bytes));
  ExponentialSum<C> sum;
  for_chunks(n, [&](std::int64_t at, std::int64_t count) {
    xs.prefetch(n + at, count);
    sum.add(xs.read(at, count), max, count,
            [&](std::int64_t i, const Vector<C>& e, auto part) { put(exponential + at + i, e, part); });
  });
  const C per_sum = 1 / sum.total(), log_sum = math::log(sum.total());
  Writer<C> ys(y);
  for_chunks(n, [&](std::int64_t at, std::int64_t count) {
    C* to = ys.target(at);
    if (log) {
      const C* from = xs.read(at, count);
      for (std::int64_t i = 0; i < count; ++i) to[i] = (from[i] - max) - log_sum;
    } else {
      const C* from = exponential + at;
#pragma GCC ivdep
      for (std::int64_t i = 0; i < count; ++i) to[i] = from[i] * per_sum;  // may be in place
    }
    ys.done(at, count);
  });
}

template <class C>
[[gnu::flatten]] void softmax_backward_of(In y, In gy, Out gx, std::int64_t n, bool log) {
  Reader<C> ys(y), gys(gy);
  Vector<C> sums{};
  for_chunks(n, [&](std::int64_t at, std::int64_t count) {
    const C *from_y = ys.read(at, count), *from_gy = gys.read(at, count);
    sums += sum_of_groups<C>(count, [&](const Vector<C>& so_far, std::int64_t i, auto part) {
      const Vector<C> g = get(from_gy + i, part);
      return log ? so_far + g : multiply_add(g, get(from_y + i, part), so_far);
    });
  });
  const C sum = sum_lanes(sums);
  Writer<C> gxs(gx);
  for_chunks(n, [&](std::int64_t at, std::int64_t count) {
    ys.prefetch(n + at, count);
    gys.prefetch(n + at, count);
    const C *from_y = ys.read(at, count), *from_gy = gys.read(at, count);
    C* to = gxs.target(at);
    each_group<C>(count, [&](std::int64_t i, auto part) {
      const Vector<C> own = get(from_y + i, part), g = get(from_gy + i, part);
      put(to + i, log ? g - exp(own) * splat(sum) : own * (g - splat(sum)), part);
    });
    gxs.done(at, count);
  });
}

/// Random words are computed by Philox over consecutive counters, kDrawn at a time. Each word has a lane of 64 bits, as
/// wide as a product of two words; the upper half is unused.
using Words = Vector<std::uint64_t>;
constexpr int kCounters = kLanes<std::uint64_t>, kDrawn = 4 * kCounters;
static_assert(kChunk % kDrawn == 0);

/// Stores word first + i of the stream in words[i] for all i < n, and for further i up to the next multiple of kDrawn.
void draw(const RandomStream& stream, std::int64_t first, std::int64_t n, std::uint32_t* words) {
  const std::array<std::uint32_t, 4> zero = stream.counter(0);
  Words own, low, high;  // own: lane numbers; low, high: lane indices that interleave two vectors
  for (int l = 0; l < kCounters; ++l) {
    own[l] = static_cast<std::uint64_t>(l);
    low[l] = static_cast<std::uint64_t>(l / 2 + l % 2 * kCounters);
    high[l] = low[l] + kCounters / 2;
  }
  for (std::int64_t at = 0; at < n; at += kDrawn) {
    Words c0 = own + static_cast<std::uint64_t>((first + at) / 4), c1 = splat(std::uint64_t{zero[1]}),
          c2 = splat(std::uint64_t{zero[2]}), c3 = splat(std::uint64_t{zero[3]});
    std::array<std::uint32_t, 2> key = stream.key();
    for (int round = 0; round < 10; ++round) {
      const Words p0 = multiply_low_words(c0, splat(std::uint64_t{0xD2511F53u}));
      const Words p1 = multiply_low_words(c2, splat(std::uint64_t{0xCD9E8D57u}));
      c0 = p1 >> 32 ^ c1 ^ splat(std::uint64_t{key[0]});
      c1 = p1;
      c2 = p0 >> 32 ^ c3 ^ splat(std::uint64_t{key[1]});
      c3 = p0;
      key[0] += 0x9E3779B9u;
      key[1] += 0xBB67AE85u;
    }
    const Words first_two = (c0 & 0xffffffffu) | c1 << 32, last_two = (c2 & 0xffffffffu) | c3 << 32;
    store_vector<std::uint64_t>(words + at, __builtin_shuffle(first_two, last_two, low));
    store_vector<std::uint64_t>(words + at + kDrawn / 2, __builtin_shuffle(first_two, last_two, high));
  }
}

template <class C>
[[gnu::flatten]] void dropout_of(In x, Out y, std::int64_t n, const RandomStream& stream, std::int64_t first,
                                 std::uint32_t drop, C scale) {
  Reader<C> xs(x);
  Writer<C> ys(y);
  alignas(64) std::uint32_t words[kChunk];
  for_chunks(n, [&](std::int64_t at, std::int64_t count) {
    draw(stream, first + at, count, words);
    const C* from = xs.read(at, count);
    C* __restrict to = ys.target(at);
    for (std::int64_t i = 0; i < count; ++i) {
      const C scaled = from[i] * scale;
      to[i] = words[i] >> 8 >= drop ? scaled : C(0);
    }
    ys.done(at, count);
  });
}

bool is_double(DType a, DType b) { return a == DType::f64 || b == DType::f64; }

}  // namespace

const RowKernels& row_kernels() {
  static constexpr RowKernels kernels{[](In x, Out y, std::int64_t n, bool log) {
                                        is_double(x.dtype, y.dtype) ? softmax_of<double>(x, y, n, log)
                                                                    : softmax_of<float>(x, y, n, log);
                                      },
                                      [](In y, In gy, Out gx, std::int64_t n, bool log) {
                                        is_double(y.dtype, gx.dtype) ? softmax_backward_of<double>(y, gy, gx, n, log)
                                                                     : softmax_backward_of<float>(y, gy, gx, n, log);
                                      },
                                      [](In x, Out y, std::int64_t n, const RandomStream& stream, std::int64_t first,
                                         std::uint32_t drop, double scale) {
                                        if (is_double(x.dtype, y.dtype))
                                          dropout_of<double>(x, y, n, stream, first, drop, scale);
                                        else
                                          dropout_of<float>(x, y, n, stream, first, drop, static_cast<float>(scale));
                                      }};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
