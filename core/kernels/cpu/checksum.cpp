#include <atomic>

#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/parallel.h"

namespace binade::cpu {

constexpr std::int64_t kGrain = 1 << 14;  // words of a task

void run_checksum(const ChecksumArgs& a) {
  std::atomic<std::uint64_t> sum{0};
  parallel_for((a.bytes + 3) / 4, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::uint64_t part = 0;
    for (std::int64_t i = begin; i < end; ++i) part += checksum_term(checksum_word(a.data, a.bytes, i), i, a.salt);
    sum += part;  // the order of additions modulo 2^64 does not matter
  });
  *a.sum += sum;
}

}  // namespace binade::cpu
