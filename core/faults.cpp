#include "binade/core/faults.h"

#include <array>
#include <mutex>
#include <unordered_map>

namespace binade {
namespace {

constexpr std::uint64_t kKept = 1024;  // number of descriptions that are kept

std::mutex g_mutex;
std::array<Describe, kKept> g_describe;
std::uint64_t g_last = 0;

constexpr std::uint64_t kFirstCaptured = std::uint64_t{1} << 63;
std::unordered_map<std::uint64_t, Describe> g_captured;
std::uint64_t g_last_captured = kFirstCaptured;
thread_local CapturedCalls* t_captured_calls = nullptr;

}  // namespace

std::uint64_t register_call(Describe describe) {
  const std::lock_guard lock(g_mutex);
  if (t_captured_calls != nullptr) {
    t_captured_calls->numbers_.push_back(++g_last_captured);
    g_captured[g_last_captured] = std::move(describe);
    return g_last_captured;
  }
  g_describe[++g_last % kKept] = std::move(describe);
  return g_last;
}

CapturedCalls::~CapturedCalls() {
  const std::lock_guard lock(g_mutex);
  for (const std::uint64_t number : numbers_) g_captured.erase(number);
}
CapturedCalls::Scope::Scope(CapturedCalls& calls) : ScopedValue(t_captured_calls, &calls) {}

std::string describe(const Fault& fault) {
  const std::lock_guard lock(g_mutex);
  if (const auto captured = g_captured.find(fault.call); captured != g_captured.end())
    return captured->second(fault.position, fault.value);
  if (fault.call > 0 && fault.call <= g_last && g_last - fault.call < kKept)
    return g_describe[fault.call % kKept](fault.position, fault.value);
  return "an op met data that it has no result for";
}

}  // namespace binade
