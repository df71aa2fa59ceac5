#pragma once

#include <algorithm>
#include <bit>

#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/piece.cuh"
#include "binade/cuda/device/team.cuh"
#include "binade/cuda/device/value.cuh"

/// How the threads of a team go over a row. They take pieces of `V` neighbors, 8 in 16-byte accesses or 1, and keep up
/// to `H` pieces each in registers from the first pass over the row to the second; with H = 0 they read the row again.
namespace binade::cuda {

/// f(column, piece's number) for the pieces of a row that this thread takes.
template <int V, int H, class C, class F>
__device__ __forceinline__ void each_piece(const Team<C>& team, std::int64_t cols, F&& f) {
  if constexpr (H > 0) {
#pragma unroll
    for (int k = 0; k < H; ++k) {
      const std::int64_t c = static_cast<std::int64_t>(k * team.width() + team.rank()) * V;
      if (c < cols) f(c, k);
    }
  } else {
    for (std::int64_t c = static_cast<std::int64_t>(team.rank()) * V; c < cols;
         c += static_cast<std::int64_t>(team.width()) * V)
      f(c, 0);
  }
}

/// The threads of a block, and how many of them share a row.
struct RowTeams {
  int threads, width;
  int count() const { return threads / width; }
};

/// Teams of one warp or less in blocks of 128 threads.
inline RowTeams small_teams(std::int64_t pieces) {
  const auto width = static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(pieces, 1, 32))));
  return {128, width};
}
/// A block that goes over `pieces` with `held` of them a thread.
inline RowTeams block_team(std::int64_t pieces, int held) {
  const auto threads = static_cast<int>(ceil_div(ceil_div(pieces, held), kWarp) * kWarp);
  return {threads, threads};
}

/// V neighbors, 8 in 16-byte accesses or one, of a dtype known at run time.
template <int V, class C>
__device__ __forceinline__ void load_some(const In& x, std::int64_t i, C (&to)[V]) {
  if constexpr (V == kPack)
    load_pack(x.data, x.dtype, i, to);
  else
    to[0] = load_at<C>(x, i);
}
template <int V, class C>
__device__ __forceinline__ void store_some(const Out& y, std::int64_t i, const C (&from)[V]) {
  if constexpr (V == kPack)
    store_pack(y.data, y.dtype, i, from);
  else
    store_at(y.data, y.dtype, i, from[0]);
}

/// The shape of a launch over rows of `cols`: whether in packs, how many pieces a thread holds, the teams.
struct RowLaunch {
  static constexpr int kHeld = 4;
  bool packed, held;
  RowTeams teams;

  RowLaunch(std::int64_t cols, bool may_pack) : packed(may_pack && cols % kPack == 0) {
    const std::int64_t pieces = packed ? cols / kPack : cols;
    held = packed && pieces <= 512 * kHeld;
    if (held)
      teams = pieces <= kWarp * kHeld ? small_teams(pieces) : block_team(pieces, kHeld);
    else if (packed)
      teams = {1024, 1024};
    else
      teams = cols <= 1024 ? small_teams(cols) : block_team(std::min<std::int64_t>(cols, 16384), 16);
  }
};

}  // namespace binade::cuda
