#include <algorithm>
#include <cstring>

#include "cuda/device/context.cuh"

/// Copies from the host's ordinary memory: by way of page-locked memory that is used in turn, so that the host waits
/// only where it is ahead of the device by all of it.
namespace binade::cuda {
namespace {

constexpr int kParts = 4;
constexpr std::size_t kPart = std::size_t{8} << 20;
constexpr std::size_t kAlignment = 64;

class Staging {
 public:
  Staging() {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, kParts * kPart, cudaHostAllocDefault), "page-locked memory");
    memory_ = static_cast<char*>(memory);
    for (cudaEvent_t& left : left_) check(cudaEventCreateWithFlags(&left, cudaEventDisableTiming), "cudaEventCreate");
  }

  void send(char* to, const char* from, std::size_t bytes) {
    bool waited = false;
    while (bytes > 0) {
      const bool whole = bytes <= kPart - used_;
      if (!whole && (used_ > kPart / 2 || bytes <= kPart)) waited |= next_part();
      const std::size_t count = std::min(bytes, kPart - used_);
      char* here = memory_ + static_cast<std::size_t>(part_) * kPart + used_;
      std::memcpy(here, from, count);
      check(cudaMemcpyAsync(to, here, count, cudaMemcpyHostToDevice, context().stream), "copy to the device");
      used_ = std::min(kPart, (used_ + count + kAlignment - 1) / kAlignment * kAlignment);
      to += count;
      from += count;
      bytes -= count;
    }
    if (waited) ++context().waits;
  }

 private:
  /// Whether the host had to wait.
  bool next_part() {
    check(cudaEventRecord(left_[part_], context().stream), "cudaEventRecord");
    part_ = (part_ + 1) % kParts;
    used_ = 0;
    const cudaError_t there = cudaEventQuery(left_[part_]);  // of an event that was never recorded: it is
    if (there != cudaErrorNotReady) {
      check(there, "the device");
      return false;
    }
    check(cudaEventSynchronize(left_[part_]), "the device");
    return true;
  }

  char* memory_ = nullptr;
  cudaEvent_t left_[kParts] = {};  // the device has read a part up to here
  int part_ = 0;
  std::size_t used_ = 0;
};

}  // namespace

void upload(void* to, const void* from, std::size_t bytes) {
  static Staging* only = new Staging;  // never destroyed: the driver may be gone before statics are
  only->send(static_cast<char*>(to), static_cast<const char*>(from), bytes);
}

}  // namespace binade::cuda
