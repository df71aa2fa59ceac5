#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "binade/core/kernels/lanes.h"
#include "binade/core/kernels/tile.h"

/// Copies operands into the order in which the register tile reads them. Only for sources in `kernel_sources`
/// (meson.build).
namespace binade::cpu::BINADE_ISA {

namespace pack_detail {

// The functions below are always inlined, since calls would pass vectors through memory.

/// Transposes kLanes x kLanes words, by log2(kLanes) rounds of perfect shuffles.
[[gnu::always_inline]] inline void transpose(VFloat (&v)[kLanes<float>]) {
  constexpr int kN = kLanes<float>;
  using Index = std::make_index_sequence<kN>;
  for (int round = 1; round < kN; round *= 2) {
    VFloat w[kN];
#pragma GCC unroll 8
    for (int i = 0; i < kN / 2; ++i) {
      w[2 * i] = lanes_detail::interleave<0>(v[i], v[i + kN / 2], Index{});
      w[2 * i + 1] = lanes_detail::interleave<1>(v[i], v[i + kN / 2], Index{});
    }
#pragma GCC unroll 16
    for (int i = 0; i < kN; ++i) v[i] = w[i];
  }
}

#if defined(__AVX512BW__)
/// Interleaves 16 values of `low` and of `high` as pairs.
[[gnu::always_inline]] inline VFloat pair_halves(__m256i low, __m256i high) {
  const __m512i odd = _mm512_set_epi16(15, 0, 14, 0, 13, 0, 12, 0, 11, 0, 10, 0, 9, 0, 8, 0, 7, 0, 6, 0, 5, 0, 4, 0, 3,
                                       0, 2, 0, 1, 0, 0, 0);
  return (VFloat)_mm512_mask_permutexvar_epi16(_mm512_cvtepu16_epi32(low), 0xaaaaaaaau, odd,
                                               _mm512_castsi256_si512(high));
}
#endif

/// Interleaves a vector from each of two rows as pairs, `low` in the low halves.
[[gnu::always_inline]] inline VFloat pair(const bfloat16* low, const bfloat16* high) {
#if defined(__AVX512BW__)
  return pair_halves(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(low)),
                     _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high)));
#else
  return (VFloat)(((VWord)load_as_float(low) >> 16) | (VWord)load_as_float(high));
#endif
}
/// Returns pairs of the first `count` values of two rows, and reads no byte beyond them. The values of a null row are
/// 0.
[[gnu::always_inline]] inline VFloat pair(const bfloat16* low, const bfloat16* high, int count) {
#if defined(__AVX512BW__)
  const auto valid = static_cast<__mmask16>((1u << count) - 1u);
  return pair_halves(low == nullptr ? _mm256_setzero_si256() : _mm256_maskz_loadu_epi16(valid, low),
                     high == nullptr ? _mm256_setzero_si256() : _mm256_maskz_loadu_epi16(valid, high));
#else
  VFloat l{}, h{};
  if (low != nullptr) l = load_part_as_float(low, count);
  if (high != nullptr) h = load_part_as_float(high, count);
  return (VFloat)(((VWord)l >> 16) | (VWord)h);
#endif
}

}  // namespace pack_detail

/// Packs lanes of op(X), so that dst[k * kWidth + j] holds X[j, k] (for Bf16PairLane: X[j, 2k] low, X[j, 2k + 1] high),
/// j < kWidth, k < ceil(k_count / Lane::kDepth). Elements beyond `j_count` or `k_count` are 0. Strides are in elements.
template <class Lane, class T, int kWidth>
void pack_panel(const T* x, std::int64_t j_stride, std::int64_t k_stride, std::int64_t j_count, std::int64_t k_count,
                typename Lane::Stored* dst) {
  using Stored = typename Lane::Stored;
  constexpr int kDepth = Lane::kDepth;
  constexpr int kN = kLanes<float>;
  const std::int64_t lanes = (k_count + kDepth - 1) / kDepth;
  const auto element = [&](std::int64_t j, std::int64_t k) -> Stored {
    if constexpr (kDepth == 2) {
      if (j >= j_count) return 0;
      const std::uint32_t low = x[j * j_stride + 2 * k * k_stride].bits;
      const std::uint32_t high = 2 * k + 1 < k_count ? x[j * j_stride + (2 * k + 1) * k_stride].bits : 0;
      return low | high << 16;
    } else {
      return j < j_count ? static_cast<Stored>(load(x[j * j_stride + k * k_stride])) : Stored{0};
    }
  };

  if constexpr (sizeof(Stored) == 4) {
    if (k_stride == 1 && lanes >= kN) {
      // k is contiguous: transposes kN x kN words at a time in registers.
      const auto row = [&](std::int64_t j, std::int64_t k) -> VFloat {
        if (j >= j_count) return VFloat{};
        if constexpr (kDepth == 2)
          return load_vector<float>(x + j * j_stride + 2 * k);
        else
          return load_as_float(x + j * j_stride + k);
      };
      const std::int64_t whole = k_count / kDepth / kN * kN;
      for (std::int64_t k = 0; k < whole; k += kN) {
#pragma GCC unroll 4
        for (int jb = 0; jb < kWidth; jb += kN) {
          constexpr int kTail = kWidth % kN == 0 ? kN : kWidth % kN;
          VFloat v[kN];
#pragma GCC unroll 16
          for (int i = 0; i < kN; ++i) v[i] = jb + i < kWidth ? row(jb + i, k) : VFloat{};
          pack_detail::transpose(v);
          float* to = reinterpret_cast<float*>(dst) + k * kWidth + jb;
          if (jb + kN <= kWidth) {
#pragma GCC unroll 16
            for (int i = 0; i < kN; ++i) store_vector<float>(to + i * kWidth, v[i]);
          } else {
#pragma GCC unroll 16
            for (int i = 0; i < kN; ++i) store_part(to + i * kWidth, v[i], kTail);
          }
        }
      }
      for (std::int64_t k = whole; k < lanes; ++k)
        for (int j = 0; j < kWidth; ++j) dst[k * kWidth + j] = element(j, k);
      return;
    }
    if (j_stride == 1) {
      // j is contiguous: rows are copied (pairs: two rows are interleaved).
      std::int64_t k = 0;
      if constexpr (kDepth == 2)
        for (; k < k_count / 2 && j_count >= kWidth; ++k)
#pragma GCC unroll 4
          for (int jb = 0; jb < kWidth; jb += kN) {
            const T *low = x + 2 * k * k_stride + jb, *high = low + k_stride;
            float* to = reinterpret_cast<float*>(dst) + k * kWidth + jb;
            if (kWidth - jb >= kN)
              store_vector<float>(to, pack_detail::pair(low, high));
            else
              store_part(to, pack_detail::pair(low, high, kWidth - jb), kWidth - jb);
          }
      for (; k < lanes; ++k) {
        Stored* to = dst + k * kWidth;
#pragma GCC unroll 4
        for (int jb = 0; jb < kWidth; jb += kN) {
          const int count = static_cast<int>(j_count - jb < 0 ? 0 : (j_count - jb < kN ? j_count - jb : kN));
          VFloat v{};
          if constexpr (kDepth == 2) {
            const T* low = x + 2 * k * k_stride + jb;
            v = pack_detail::pair(low, 2 * k + 1 < k_count ? low + k_stride : nullptr, count);
          } else {
            const T* from = x + k * k_stride + jb;
            v = count == kN ? load_as_float(from) : load_part_as_float(from, count);
          }
          if (kWidth - jb >= kN)
            store_vector<float>(to + jb, v);
          else
            store_part(reinterpret_cast<float*>(to + jb), v, kWidth % kN);
        }
      }
      return;
    }
  }
  for (std::int64_t k = 0; k < lanes; ++k)
    for (int j = 0; j < kWidth; ++j) dst[k * kWidth + j] = element(j, k);
}

/// Packs rows of A for the tile: row j's lanes of group g (kGroup lanes; the last group may have fewer) begin at dst[(g
/// * kTileRows + j) * kGroup].
template <class Lane, class T>
void pack_rows(const T* x, std::int64_t row_stride, std::int64_t k_stride, std::int64_t rows, std::int64_t k_count,
               typename Lane::Stored* dst) {
  if constexpr (Lane::kGroup == 1) {
    pack_panel<Lane, T, kTileRows<Lane>>(x, row_stride, k_stride, rows, k_count, dst);
  } else {
    constexpr int kN = kLanes<float>;
    static_assert(Lane::kGroup == kN && Lane::kDepth == 2);
    constexpr std::int64_t kGroupValues = 2 * kN;
    for (std::int64_t k = 0; k < k_count; k += kGroupValues, dst += kTileRows<Lane> * kN) {
      const std::int64_t count = k_count - k < kGroupValues ? k_count - k : kGroupValues;
      const T* from = x + k * k_stride;
      if (k_stride == 1) {
        for (std::int64_t j = 0; j < rows; ++j) {
          if (count < kGroupValues) store_vector<float>(dst + j * kN, VFloat{});
          std::memcpy(dst + j * kN, from + j * row_stride, static_cast<std::size_t>(count) * sizeof(T));
        }
      } else if (row_stride == 1) {
        // Neighboring rows are adjacent in memory: packs 16 x 16 pairs at a time in registers.
        for (std::int64_t jb = 0; jb < rows; jb += kN) {
          const int valid = static_cast<int>(rows - jb < kN ? rows - jb : kN);
          const auto values = [&](std::int64_t i) { return i < count ? from + i * k_stride + jb : nullptr; };
          VFloat v[kN];
          if (valid == kN && count == kGroupValues) {
#pragma GCC unroll 16
            for (int i = 0; i < kN; ++i) v[i] = pack_detail::pair(values(2 * i), values(2 * i + 1));
          } else {
            for (int i = 0; i < kN; ++i) v[i] = pack_detail::pair(values(2 * i), values(2 * i + 1), valid);
          }
          pack_detail::transpose(v);
          for (int i = 0; i < valid; ++i) store_vector<float>(dst + (jb + i) * kN, v[i]);
        }
      } else {
        for (std::int64_t j = 0; j < rows; ++j)
          for (std::int64_t i = 0; i < count; i += 2) {
            const T* at = from + j * row_stride + i * k_stride;
            dst[j * kN + i / 2] = at->bits | (i + 1 < count ? static_cast<std::uint32_t>(at[k_stride].bits) << 16 : 0);
          }
      }
    }
  }
}

/// B (k, n), packed for the register tile. Panel p holds columns [p w, p w + w), where w = kTileColumns, one step of k
/// after the other. If the last panel has at most one vector of columns, it is packed one vector wide.
template <class Lane>
struct PackedB {
  using Stored = typename Lane::Stored;
  static constexpr int kWide = kTileColumns<Lane>;    ///< columns of an ordinary panel
  static constexpr int kNarrow = kVectorWidth<Lane>;  ///< columns of a narrow panel at the end

  std::int64_t columns = 0;
  std::int64_t lanes = 0;  ///< number of lanes along k
  Stored* data = nullptr;

  /// Returns the number of panels of n columns.
  static std::int64_t panels(std::int64_t n) { return (n + kWide - 1) / kWide; }
  /// Returns the number of lanes of a packed matrix (k, n).
  static std::size_t size(std::int64_t n, std::int64_t k) {
    return static_cast<std::size_t>(panels(n) * kWide * ((k + Lane::kDepth - 1) / Lane::kDepth));
  }
  std::int64_t panels() const { return panels(columns); }
  /// Returns the number of columns in panel p.
  int width(std::int64_t p) const {
    const std::int64_t left = columns - p * kWide;
    return static_cast<int>(left < kWide ? left : kWide);
  }
  /// Returns the distance in bytes between the lanes of panel p along k.
  std::int64_t step_bytes(std::int64_t p) const {
    return static_cast<std::int64_t>(sizeof(Stored)) * (width(p) <= kNarrow ? kNarrow : kWide);
  }
  const char* panel(std::int64_t p) const { return reinterpret_cast<const char*>(data + p * kWide * lanes); }

  /// Packs k_count rows of op(B), from row first_lane * Lane::kDepth on, into panel p.
  /// Element (k, j) of op(B) is b[k * k_stride + j * j_stride].
  template <class T>
  void pack(std::int64_t p, const T* b, std::int64_t k_stride, std::int64_t j_stride, std::int64_t k_count,
            std::int64_t first_lane = 0) const {
    const T* from = b + p * kWide * j_stride + first_lane * Lane::kDepth * k_stride;
    Stored* to = data + p * kWide * lanes;
    if (width(p) <= kNarrow)
      pack_panel<Lane, T, kNarrow>(from, j_stride, k_stride, width(p), k_count, to + first_lane * kNarrow);
    else
      pack_panel<Lane, T, kWide>(from, j_stride, k_stride, width(p), k_count, to + first_lane * kWide);
  }
};

}  // namespace binade::cpu::BINADE_ISA
