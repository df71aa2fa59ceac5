#include "cuda/faults.h"

#include <array>
#include <mutex>

namespace binade::cuda {
namespace {

constexpr std::uint64_t kKept = 1024;

std::mutex g_mutex;
std::array<Describe, kKept> g_describe;
std::uint64_t g_last = 0;

}  // namespace

std::uint64_t number_call(Describe describe) {
  const std::lock_guard lock(g_mutex);
  g_describe[++g_last % kKept] = std::move(describe);
  return g_last;
}

std::string describe(const Fault& fault) {
  const std::lock_guard lock(g_mutex);
  if (fault.call > 0 && fault.call <= g_last && g_last - fault.call < kKept)
    return g_describe[fault.call % kKept](fault.position, fault.value);
  return "an op met data that it has no result for";
}

}  // namespace binade::cuda
