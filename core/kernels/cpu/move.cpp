#include <algorithm>
#include <cstring>

#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/parallel.h"

namespace binade::cpu {
namespace {

constexpr std::int64_t kGrainBytes = 1 << 16;

/// Copies like memcpy(), but copies a short run inline, because the call would take longer than the copy.
void copy_run(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kStep = 16, kShort = 256;
  if (bytes < kStep || bytes > kShort) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t at = 0; at + kStep <= bytes; at += kStep) std::memcpy(to + at, from + at, kStep);
  std::memcpy(to + bytes - kStep, from + bytes - kStep, kStep);
}

/// Copies the innermost output dimension element by element and iterates over the others.
template <class E>
void permute_typed(const PermuteCopy& a) {
  std::int64_t outer = 1;
  for (int d = 0; d + 1 < a.rank; ++d) outer *= a.dims[d];
  const int last = a.rank - 1;
  const std::int64_t inner = a.dims[last], stride = a.from_stride[last];
  const auto* from = static_cast<const E*>(a.from);
  auto* to = static_cast<E*>(a.to);
  const std::int64_t grain = std::max<std::int64_t>(
      1, kGrainBytes / std::max<std::int64_t>(1, inner * static_cast<std::int64_t>(sizeof(E))));
  parallel_for(outer, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int64_t rest = i, at = 0;
      for (int d = last - 1; d >= 0; --d) {
        at += rest % a.dims[d] * a.from_stride[d];
        rest /= a.dims[d];
      }
      E* y = to + i * inner;
      if (stride == 1) {
        std::memcpy(static_cast<void*>(y), from + at, static_cast<std::size_t>(inner) * sizeof(E));
      } else {
        for (std::int64_t j = 0; j < inner; ++j) y[j] = from[at + j * stride];
      }
    }
  });
}

}  // namespace

void run_box(const BoxCopy& a) {
  const auto bytes = static_cast<std::size_t>(a.inner) * a.element_bytes;
  if (bytes == 0) return;
  const auto* from = static_cast<const std::byte*>(a.from);
  auto* to = static_cast<std::byte*>(a.to);
  const auto step = static_cast<std::int64_t>(a.element_bytes);
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainBytes / static_cast<std::int64_t>(bytes));
  parallel_for(a.outer, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      copy_run(to + i * a.to_stride * step, from + i * a.from_stride * step, bytes);
  });
}

void run_permute(const PermuteCopy& a) {
  switch (a.element_bytes) {
    case 1: return permute_typed<std::uint8_t>(a);
    case 2: return permute_typed<std::uint16_t>(a);
    case 4: return permute_typed<std::uint32_t>(a);
    default: return permute_typed<std::uint64_t>(a);
  }
}

}  // namespace binade::cpu
