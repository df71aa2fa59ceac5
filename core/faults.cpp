#include "binade/core/faults.h"

#include <array>
#include <mutex>
#include <unordered_map>

namespace binade {
namespace {

constexpr std::uint64_t kKept = 1024;

std::mutex g_mutex;
std::array<Describe, kKept> g_describe;
std::uint64_t g_last = 0;

constexpr std::uint64_t kFirstRecorded = std::uint64_t{1} << 63;
std::unordered_map<std::uint64_t, Describe> g_recorded;
std::uint64_t g_last_recorded = kFirstRecorded;
thread_local RecordedCalls* t_recording = nullptr;

}  // namespace

std::uint64_t number_call(Describe describe) {
  const std::lock_guard lock(g_mutex);
  if (t_recording != nullptr) {
    t_recording->numbers_.push_back(++g_last_recorded);
    g_recorded[g_last_recorded] = std::move(describe);
    return g_last_recorded;
  }
  g_describe[++g_last % kKept] = std::move(describe);
  return g_last;
}

RecordedCalls::~RecordedCalls() {
  const std::lock_guard lock(g_mutex);
  for (const std::uint64_t number : numbers_) g_recorded.erase(number);
}
RecordedCalls::Scope::Scope(RecordedCalls& calls) { t_recording = &calls; }
RecordedCalls::Scope::~Scope() { t_recording = nullptr; }

std::string describe(const Fault& fault) {
  const std::lock_guard lock(g_mutex);
  if (const auto recorded = g_recorded.find(fault.call); recorded != g_recorded.end())
    return recorded->second(fault.position, fault.value);
  if (fault.call > 0 && fault.call <= g_last && g_last - fault.call < kKept)
    return g_describe[fault.call % kKept](fault.position, fault.value);
  return "an op met data that it has no result for";
}

}  // namespace binade
