#include "core/cpu_backend.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/error.h"

namespace binade {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kLarge = std::size_t{1} << 20;  // mapped on its own from here on
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

/// Eight sizes per power of two: at most 1/8 of a block is waste, and blocks are found again.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= 512) return round_up(bytes, kAlignment);
  std::size_t power = 512;
  while (power * 2 <= bytes) power *= 2;
  return round_up(bytes, power / 8);
}

class CpuBackend final : public Backend {
 public:
  void* allocate(std::size_t bytes, Stream) override {
    const std::size_t capacity = size_class(bytes);
    std::lock_guard lock(mutex_);
    if (void* block = take_cached(capacity)) {
      count(bytes);
      return block;
    }
    void* block = obtain(capacity);
    if (block == nullptr) {
      trim_locked();
      block = obtain(capacity);
    }
    if (block == nullptr) throw OutOfMemoryError(out_of_memory_text(bytes));
    try {
      capacity_of_[block] = capacity;
    } catch (...) {
      give_back(block, capacity);
      throw;
    }
    count(bytes);
    return block;
  }

  void release(void* memory, std::size_t bytes, Stream) noexcept override {
    std::lock_guard lock(mutex_);
    in_use_ -= bytes;
    const auto known = capacity_of_.find(memory);
    try {
      cache_[known->second].push_back(memory);
    } catch (const std::bad_alloc&) {  // no memory to remember it: the system has it back
      give_back(memory, known->second);
      capacity_of_.erase(known);
    }
  }

  void trim() noexcept override {
    std::lock_guard lock(mutex_);
    trim_locked();
  }

  void copy(void* to, const void* from, std::size_t bytes, CopyKind, Stream) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void fill_zero(void* memory, std::size_t bytes, Stream) override {
    if (bytes > 0) std::memset(memory, 0, bytes);
  }
  void synchronize(Stream) override {}

  std::size_t bytes_in_use() const override {
    std::lock_guard lock(mutex_);
    return in_use_;
  }
  std::size_t bytes_peak() const override {
    std::lock_guard lock(mutex_);
    return peak_;
  }
  void reset_peak() override {
    std::lock_guard lock(mutex_);
    peak_ = in_use_;
  }
  std::string description() const override {
    return fmt::format("cpu: {} hardware threads", std::thread::hardware_concurrency());
  }

 private:
  void* take_cached(std::size_t capacity) {
    // A block up to a quarter larger than needed is better than a new one.
    for (auto it = cache_.lower_bound(capacity); it != cache_.end() && it->first <= capacity + capacity / 4; ++it) {
      if (it->second.empty()) continue;
      void* block = it->second.back();
      it->second.pop_back();
      return block;
    }
    return nullptr;
  }

  void count(std::size_t bytes) {
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
  }

  static void* obtain(std::size_t capacity) {
    if (capacity < kLarge) return std::aligned_alloc(kAlignment, capacity);
    void* block = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return nullptr;
    if (capacity >= kHugePage) madvise(block, capacity, MADV_HUGEPAGE);  // advice: a refusal costs speed only
    return block;
  }

  static void give_back(void* block, std::size_t capacity) noexcept {
    if (capacity < kLarge)
      std::free(block);
    else
      munmap(block, capacity);
  }

  void trim_locked() noexcept {
    for (auto& [capacity, blocks] : cache_) {
      for (void* block : blocks) {
        capacity_of_.erase(block);
        give_back(block, capacity);
      }
    }
    cache_.clear();
  }

  std::string out_of_memory_text(std::size_t bytes) const {
    constexpr double kMiB = 1024.0 * 1024.0;
    return fmt::format(
        "cpu: no memory for {:.1f} MiB more beside the {:.1f} MiB in use; use a smaller batch or context",
        static_cast<double>(bytes) / kMiB, static_cast<double>(in_use_) / kMiB);
  }

  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> cache_;
  std::unordered_map<void*, std::size_t> capacity_of_;
  std::size_t in_use_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace

Backend& cpu_backend() {
  static CpuBackend* backend = new CpuBackend;  // never destroyed: tensors may outlive main's statics
  return *backend;
}

}  // namespace binade
