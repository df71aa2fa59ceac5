#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "binade/core/kernels/attention.h"
#include "binade/core/kernels/lanes.h"
#include "binade/core/kernels/tile.h"
#include "binade/core/kernels/vector_math.h"
#include "binade/core/math.h"

/// The part of attention between its products: the softmax of some query rows, and its gradient. Each row is processed
/// in whole vectors, up to the last key that its query attends to. Only for sources in `kernel_sources` (meson.build).
namespace binade::cpu::BINADE_ISA {

/// Rows of values, which begin `pitch` elements apart.
template <class V>
struct Rows {
  V* data = nullptr;
  std::int64_t pitch = 0;
  V* row(std::int64_t i) const { return data + i * pitch; }
};

/// Computes the softmax and its gradient, for products of lanes `Lane` over tensors of T. Rows are read and written in
/// whole vectors up to `width`, a multiple of a vector. Elements after a query's last visible key may have any value on
/// entry, and are 0 in the resulting operands.
template <class Lane, class T>
class AttentionRows {
  using C = typename Lane::Accumulator;
  using Stored = typename Lane::Stored;
  static constexpr int kN = kLanes<C>;                  // values in a register
  static constexpr bool kPairs = Lane::kDepth == 2;     ///< operands are pairs of T; otherwise single values of C
  static constexpr bool kHalf = !std::is_same_v<T, C>;  // true if T has 16 bits
  static constexpr C kLowest = -std::numeric_limits<C>::infinity();
  static constexpr C kLog2E = std::numbers::log2e_v<C>, kLn2 = std::numbers::ln2_v<C>;

 public:
  explicit AttentionRows(const AttentionArgs& args)
      : a_(args), scale_(static_cast<C>(args.scale) * kLog2E), dropout_scale_(1 / (1 - static_cast<C>(args.dropout))) {}

  /// `count` queries from `first` on, of head h of sample b.
  struct Queries {
    std::int64_t b, h, first, count, width;
  };

  /// Returns the number of keys that query t attends to.
  std::int64_t visible(std::int64_t t) const { return a_.visible(t); }

  /// Replaces the products q k in `x` by exponentials with dropout applied. They are the left operand of the next
  /// product: stored in `operand` for pairs, in `x` otherwise. The exponentials times `inverse` are the probabilities;
  /// `inverse` is 0 for a row without visible keys. `lse` receives each query's log-sum-exp, or is null. `factors` is
  /// scratch for a row of dropout factors.
  void softmax(const Queries& at, const Rows<C>& x, const Rows<Stored>& operand, C* factors, C* lse, C* inverse) const {
    for (std::int64_t r = 0; r < at.count; r += kN) {
      const int rows = static_cast<int>(std::min<std::int64_t>(kN, at.count - r));
      softmax_rows({at.b, at.h, at.first + r, rows, at.width}, {x.row(r), x.pitch}, {operand.row(r), operand.pitch},
                   factors, lse == nullptr ? nullptr : lse + r, inverse + r);
    }
  }

  /// The operands that gradients() computes: dropout(p) in `p`; the gradients of the logits in `gp` as a right operand,
  /// and in `gp_left` as a left one. If operands are pairs, a lane of `p` and `gp` holds values of two rows, and a lane
  /// of `gp_left` two values of one row. Otherwise the operands overwrite their inputs.
  struct Operands {
    Rows<Stored> p, gp, gp_left;
  };

  /// Computes the operands dropout(p) and p (dropout(gp) - delta) from the products q k (in p) and gy v (in gp).
  void gradients(const Queries& at, const Rows<C>& p, const Rows<C>& gp, const C* lse, const C* delta,
                 const Rows<C>& factors, const Operands& to) const {
    for (std::int64_t r = 0; r < at.count; r += Lane::kDepth) gradient_rows(at, r, p, gp, lse, delta, factors, to);
  }

 private:
  /// Calls f(s, std::false_type) for vectors of keys below `whole`, which every row attends to, and f(s,
  /// std::true_type) for the remaining ones below `end`, which need a check per key.
  template <class F>
  [[gnu::always_inline]] static void each_vector(std::int64_t whole, std::int64_t end, F&& f) {
    std::int64_t s = 0;
    for (; s + kN <= whole; s += kN) f(s, std::false_type{});
    for (; s < end; s += kN) f(s, std::true_type{});
  }
  /// Returns x with `rest` in the lanes of keys >= `count`. The first lane of x is key s.
  template <bool kEdge>
  [[gnu::always_inline]] static Vector<C> visible_only(const Vector<C>& x, std::int64_t s, std::int64_t count,
                                                       std::bool_constant<kEdge>, float rest = 0) {
    if constexpr (kEdge)
      return keep(x, Part{static_cast<int>(count - s)}, rest);
    else
      return x;
  }

  /// Returns scaled and masked logits in units of ln 2, since 2^x costs less than e^x.
  template <bool kEdge>
  [[gnu::always_inline]] Vector<C> logits(const C* row, const C* mask, std::int64_t s, std::int64_t count,
                                          std::bool_constant<kEdge>) const {
    const Vector<C> x = load_vector<C>(row + s);
    if (mask == nullptr) return x * scale_;
    Vector<C> added;
    if constexpr (std::is_same_v<C, double>) {
      for (int i = 0; i < kN; ++i) added[i] = s + i < count ? mask[s + i] : 0;
    } else if constexpr (kEdge) {
      added = load_part(mask + s, static_cast<int>(std::clamp<std::int64_t>(count - s, 0, kN)));
    } else {
      added = load_vector<float>(mask + s);
    }
    return multiply_add(x, splat(scale_), added * kLog2E);
  }

  [[gnu::always_inline]] static VFloat exponential(VFloat x) {
    if constexpr (kHalf)
      return exp2_for_halves(x);
    else
      return exp2(x);
  }
  static Vector<double> exponential(Vector<double> x) {
    for (int i = 0; i < kN; ++i) x[i] = std::exp2(x[i]);
    return x;
  }
  [[gnu::always_inline]] static Vector<C> rounded(const Vector<C>& x) {
    if constexpr (kHalf)
      return rounded_to<T>(x);
    else
      return x;
  }

  /// Returns the lane-wise maximum of a row's logits. A NaN is not taken as the maximum; later its exponential makes
  /// the sum NaN.
  Vector<C> largest(const C* row, std::int64_t count, const C* mask) const {
    Vector<C> top = splat(kLowest);
    each_vector(
        count, count, [&](std::int64_t s, auto edge) __attribute__((always_inline)) {
          top = larger(visible_only(logits(row, mask, s, count, edge), s, count, edge,
                                    -std::numeric_limits<float>::infinity()),
                       top);
        });
    return top;
  }

  static bool hides_all(const C* mask, std::int64_t count) {
    if (mask == nullptr) return count == 0;
    for (std::int64_t s = 0; s < count; ++s)
      if (mask[s] != -std::numeric_limits<C>::infinity()) return false;
    return true;
  }

  void softmax_rows(const Queries& at, const Rows<C>& x, const Rows<Stored>& operand, C* factors, C* lse,
                    C* inverse) const {
    const int rows = static_cast<int>(at.count);
    Vector<C> of_row[kN];
    for (int i = 0; i < kN; ++i)
      of_row[i] = i < rows ? largest(x.row(i), visible(at.first + i), a_.template mask_row<C>(at.b, at.h, at.first + i))
                           : splat(kLowest);
    C shift[kN], sum[kN];
    store_vector<C>(shift, fold_rows(of_row, [](const auto& a, const auto& b) { return larger(a, b); }));
    for (int i = 0; i < kN; ++i) {
      of_row[i] = Vector<C>{};
      if (i >= rows) continue;
      const std::int64_t t = at.first + i, count = visible(t);
      const C* mask = a_.template mask_row<C>(at.b, at.h, t);
      if (shift[i] == kLowest && hides_all(mask, count)) shift[i] = 0;
      if (a_.dropout > 0) fill_factors(at.b, at.h, t, factors);
      of_row[i] = exponentials(x.row(i), operand.row(i), count, at.width, mask, shift[i], factors);
    }
    store_vector<C>(sum, sum_rows(of_row));
    C logs[kN];
    for (int i = 0; i < kN; ++i) logs[i] = math::log(sum[i]);
    for (int i = 0; i < rows; ++i) {
      inverse[i] = sum[i] == C(0) ? C(0) : C(1) / sum[i];
      if (lse != nullptr) lse[i] = sum[i] == C(0) ? -kLowest : shift[i] * kLn2 + logs[i];
    }
  }

  /// Computes a row's exponentials and returns their lane-wise sums.
  [[gnu::always_inline]] Vector<C> exponentials(C* row, Stored* operand, std::int64_t count, std::int64_t width,
                                                const C* mask, C shift, const C* factors) const {
    const bool drops = a_.dropout > 0;
    Vector<C> sums{};
    each_vector(
        count, count, [&](std::int64_t s, auto edge) __attribute__((always_inline)) {
          const Vector<C> p = visible_only(exponential(logits(row, mask, s, count, edge) - shift), s, count, edge);
          sums += p;
          put_left(row, operand, s, drops ? p * load_vector<C>(factors + s) : p);
        });
    for (std::int64_t s = (count + kN - 1) / kN * kN; s < width; s += kN) put_left(row, operand, s, Vector<C>{});
    return sums;
  }

  /// Stores a vector of a left operand. For pairs, the conversion may flush subnormals to 0, since products of pairs
  /// count them as 0.
  [[gnu::always_inline]] static void put_left(C* row, [[maybe_unused]] Stored* operand, std::int64_t s,
                                              const Vector<C>& x) {
#if defined(__AVX512BF16__)
    if constexpr (kPairs) {
      const __m256bh half = _mm512_cvtneps_pbh((__m512)x);
      std::memcpy(operand + s / 2, &half, sizeof half);
      return;
    }
#endif
    store_vector<C>(row + s, rounded(x));
  }

  void gradient_rows(const Queries& at, std::int64_t r, const Rows<C>& p, const Rows<C>& gp, const C* lse,
                     const C* delta, const Rows<C>& factors, const Operands& to) const {
    constexpr int kRows = Lane::kDepth;
    std::int64_t count[kRows];
    const C* mask[kRows];
    C shift[kRows];
    for (int i = 0; i < kRows; ++i) {
      const std::int64_t t = at.first + r + i;
      const bool in_range = r + i < at.count;
      count[i] = in_range ? visible(t) : 0;
      mask[i] = in_range ? a_.template mask_row<C>(at.b, at.h, t) : nullptr;
      shift[i] = in_range ? lse[r + i] * kLog2E : C(0);
      if (a_.dropout > 0 && in_range) fill_factors(at.b, at.h, t, factors.row(i));
    }
    const auto [whole, end] = std::minmax_element(count, count + kRows);
    const std::int64_t last = *end;
    const bool drops = a_.dropout > 0;
    each_vector(
        *whole, last, [&](std::int64_t s, auto edge) __attribute__((always_inline)) {
          Vector<C> x[kRows], g[kRows];
#pragma GCC unroll 2
          for (int i = 0; i < kRows; ++i) {
            x[i] = visible_only(exponential(logits(p.row(r + i), mask[i], s, count[i], edge) - shift[i]), s, count[i],
                                edge);
            const Vector<C> gx = load_vector<C>(gp.row(r + i) + s);
            if (drops) {
              const Vector<C> factor = load_vector<C>(factors.row(i) + s);
              g[i] = visible_only(x[i] * (gx * factor - delta[r + i]), s, count[i], edge);
              x[i] = visible_only(x[i] * factor, s, count[i], edge);
            } else {
              g[i] = visible_only(x[i] * (gx - delta[r + i]), s, count[i], edge);
            }
          }
          put_operands(p, gp, r, s, x, g, to);
        });
    const Vector<C> zeros[kRows] = {};
    for (std::int64_t s = (last + kN - 1) / kN * kN; s < at.width; s += kN) put_operands(p, gp, r, s, zeros, zeros, to);
  }

  [[gnu::always_inline]] static void put_operands(const Rows<C>& p, const Rows<C>& gp, std::int64_t r, std::int64_t s,
                                                  const Vector<C>* x, const Vector<C>* g,
                                                  [[maybe_unused]] const Operands& to) {
#if defined(__AVX512BF16__)
    if constexpr (kPairs) {
      // gp_left receives a vector of each row; gp and p receive the values of the two rows interleaved.
      const __m512i half = (__m512i)_mm512_cvtne2ps_pbh((__m512)g[1], (__m512)g[0]);
      const __m256i second = _mm512_extracti64x4_epi64(half, 1), first = _mm512_castsi512_si256(half);
      std::memcpy(to.gp_left.row(r) + s / 2, &first, sizeof first);
      std::memcpy(to.gp_left.row(r + 1) + s / 2, &second, sizeof second);
      const auto pairs = [](const __m512i& halves) __attribute__((always_inline)) {
        const __m512i turn = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22,
                                              6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
        return _mm512_permutexvar_epi16(turn, halves);
      };
      _mm512_storeu_si512(to.gp.row(r / 2) + s, pairs(half));
      _mm512_storeu_si512(to.p.row(r / 2) + s, pairs((__m512i)_mm512_cvtne2ps_pbh((__m512)x[1], (__m512)x[0])));
      return;
    }
#endif
    store_vector<C>(p.row(r) + s, rounded(x[0]));
    store_vector<C>(gp.row(r) + s, rounded(g[0]));
  }

  /// Computes the dropout factors of the keys that query t attends to, in whole vectors.
  void fill_factors(std::int64_t b, std::int64_t h, std::int64_t t, C* factors) const {
    const std::uint64_t base = static_cast<std::uint64_t>(((b * a_.heads + h) * a_.queries + t) * a_.keys);
    const std::int64_t count = (visible(t) + kN - 1) / kN * kN;
    std::array<std::uint32_t, 4> words{};
    for (std::int64_t s = 0; s < count; ++s) {
      const std::uint64_t i = base + static_cast<std::uint64_t>(s);
      if (s == 0 || i % 4 == 0) words = a_.rng.block(i / 4);
      const float uniform = static_cast<float>(words[i % 4] >> 8) * 0x1p-24f;
      factors[s] = uniform >= a_.dropout ? dropout_scale_ : C(0);
    }
  }

  const AttentionArgs& a_;
  C scale_;          ///< scale * log2(e), since logits are in units of ln 2
  C dropout_scale_;  ///< 1 / (1 - dropout)
};

}  // namespace binade::cpu::BINADE_ISA
