#include "tests/fuzz/heap.h"

#include <atomic>

namespace binade::fuzz::heap {
namespace {

std::atomic<std::int64_t> now_live{0}, most_live{0};

}  // namespace

void allocated(std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  const std::int64_t now = now_live.fetch_add(size, std::memory_order_relaxed) + size;
  if (now > most_live.load(std::memory_order_relaxed)) most_live.store(now, std::memory_order_relaxed);
}
void freed(std::size_t bytes) { now_live.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed); }

std::int64_t live() { return now_live.load(); }
std::int64_t peak() { return most_live.load(); }
void set_peak(std::int64_t bytes) { most_live.store(bytes); }

}  // namespace binade::fuzz::heap
