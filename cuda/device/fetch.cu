#include <algorithm>
#include <cstring>
#include <mutex>

#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/marks.cuh"

/// Copies to ordinary host memory, concurrently with kernels (docs/decisions/0031). The copies have their own stream
/// and use two parts of page-locked memory: the device fills one part while the host empties the other. Context::mutex
/// is not held, so that other threads can continue to submit work.
namespace binade::cuda {
namespace {

/// The stream and the two parts of page-locked memory.
class Fetches {
 public:
  Fetches() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    for (Part& part : parts_) {
      void* memory = nullptr;
      part.copied = make_event();
      check(cudaHostAlloc(&memory, kPart, cudaHostAllocDefault), "page-locked memory");
      part.buffer = static_cast<char*>(memory);
    }
  }

  void copy(char* to, const char* from, std::size_t bytes) {
    send(0, from, bytes);
    for (std::size_t at = 0; at < bytes; at += kPart) {
      send(at + kPart, from, bytes);
      const Part& part = part_of(at);
      check(cudaEventSynchronize(part.copied), "the device");
      std::memcpy(to + at, part.buffer, std::min(kPart, bytes - at));
    }
  }

 private:
  static constexpr std::size_t kPart = std::size_t{8} << 20;
  struct Part {
    char* buffer = nullptr;
    cudaEvent_t copied = nullptr;
  };

  const Part& part_of(std::size_t at) const { return parts_[at / kPart % 2]; }
  void send(std::size_t at, const char* from, std::size_t bytes) {
    if (at >= bytes) return;
    const Part& part = part_of(at);
    check(cudaMemcpyAsync(part.buffer, from + at, std::min(kPart, bytes - at), cudaMemcpyDeviceToHost, stream_),
          "copy to the host");
    check(cudaEventRecord(part.copied, stream_), "cudaEventRecord");
  }

  cudaStream_t stream_ = nullptr;
  Part parts_[2];
};

}  // namespace

void fetch(void* to, const void* from, std::size_t bytes, std::uint64_t mark) {
  require_no_capture("a copy to ordinary host memory");
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  wait_until_reached(mark);
  static auto* const fetches = new Fetches;  // never destroyed: the CUDA driver may shut down first
  fetches->copy(static_cast<char*>(to), static_cast<const char*>(from), bytes);
}

}  // namespace binade::cuda
