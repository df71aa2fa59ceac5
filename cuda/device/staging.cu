#include <algorithm>
#include <cstring>

#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/marks.cuh"

/// Copies from ordinary host memory, through parts of page-locked memory that are used in turn, so that the host waits
/// only if all parts are still in use. Large copies to the device use a separate stream and run concurrently with
/// earlier kernels; only the final copy within device memory waits for these kernels (docs/decisions/0025).
namespace binade::cuda {
namespace {

constexpr int kParts = 4;
constexpr std::size_t kAlignment = 64;

/// Copies of fewer bytes go directly to their destination. They take an estimated few microseconds on the bus, and a
/// second stream would cost as much for events, a wait between streams and another copy.
constexpr std::size_t kSmall = std::size_t{64} << 10;
constexpr std::size_t kSmallPart = std::size_t{2} << 20;
constexpr std::size_t kLargePart = std::size_t{8} << 20;

/// Page-locked memory in parts. With `beside`, also as many parts of device memory, which a separate copy stream fills.
/// Two events per part order the three that use it:
///   host            writes the page-locked part when the copy stream has read it     (taken)
///   copy stream     writes the device's part when the compute stream has read it     (read)
///   compute stream  reads the device's part when the copy stream has written it      (taken)
/// If the device has no memory for these parts, everything is submitted to the compute stream.
class Staging {
 public:
  Staging(std::size_t part, bool beside) : part_bytes_(part) {
    if (beside) check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    for (int i = 0; i < kParts; ++i) taken_[i] = make_event(), read_[i] = make_event();
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, kParts * part_bytes_, cudaHostAllocDefault), "page-locked memory");
    host_ = static_cast<char*>(memory);
    if (!beside) return;
    const cudaError_t error = cudaMalloc(&memory, kParts * part_bytes_);
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // resets the runtime's last error, which is handled here, so that the next launch does not
                           // report it
      return;
    }
    check(error, "device memory for uploads");
    device_ = static_cast<char*>(memory);
  }

  void send(char* to, const char* from, std::size_t bytes) {
    bool waited = false;
    while (bytes > 0) {
      const bool whole = bytes <= part_bytes_ - used_;
      if (!whole && (used_ > part_bytes_ / 2 || bytes <= part_bytes_)) waited |= next_part();
      const std::size_t count = std::min(bytes, part_bytes_ - used_);
      const std::size_t at = static_cast<std::size_t>(part_) * part_bytes_ + used_;
      std::memcpy(host_ + at, from, count);
      used_ = std::min(part_bytes_, (used_ + count + kAlignment - 1) / kAlignment * kAlignment);
      if (device_ != nullptr)
        send_beside(to, at, count);
      else
        copy(to, host_ + at, count, cudaMemcpyHostToDevice, context().stream);
      to += count;
      from += count;
      bytes -= count;
    }
    if (waited) ++context().waits;
  }

 private:
  static void copy(char* to, const char* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    check(cudaMemcpyAsync(to, from, bytes, kind, stream), "copy to the device");
  }
  static void record(cudaEvent_t event, cudaStream_t stream) {
    check(cudaEventRecord(event, stream), "cudaEventRecord");
  }
  /// Makes work that is submitted to `stream` from now on wait for the last record of `event`, if there is one.
  static void order(cudaStream_t stream, cudaEvent_t event) {
    check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  }

  /// Copies a chunk over the copy stream. Records the events for every chunk, so that a full part is free as soon as
  /// its own copies are done, no matter how many kernels were submitted before the next upload.
  void send_beside(char* to, std::size_t at, std::size_t count) {
    copy(device_ + at, host_ + at, count, cudaMemcpyHostToDevice, stream_);
    record(taken_[part_], stream_);
    order(context().stream, taken_[part_]);
    copy(to, device_ + at, count, cudaMemcpyDeviceToDevice, context().stream);
    record(read_[part_], context().stream);
  }

  /// Returns true if the host had to wait.
  bool next_part() {
    if (device_ == nullptr) record(taken_[part_], context().stream);
    part_ = (part_ + 1) % kParts;
    used_ = 0;
    if (device_ != nullptr) order(stream_, read_[part_]);
    if (is_over(taken_[part_])) return false;  // true also if it was never recorded
    check(cudaEventSynchronize(taken_[part_]), "the device");
    return true;
  }

  std::size_t part_bytes_;
  char* host_ = nullptr;    // page-locked
  char* device_ = nullptr;  // device memory, or null
  cudaStream_t stream_ = nullptr;
  cudaEvent_t taken_[kParts] = {}, read_[kParts] = {};
  int part_ = 0;
  std::size_t used_ = 0;
};

}  // namespace

void upload(void* to, const void* from, std::size_t bytes) {
  // Each object is created at its first use, with page-locked memory; `large` also gets 32 MiB of device memory.
  static Staging *small = nullptr, *large = nullptr;  // never destroyed: the CUDA driver may shut down first
  Staging*& staging = bytes <= kSmall ? small : large;
  if (staging == nullptr) staging = new Staging(bytes <= kSmall ? kSmallPart : kLargePart, bytes > kSmall);
  staging->send(static_cast<char*>(to), static_cast<const char*>(from), bytes);
}

}  // namespace binade::cuda
