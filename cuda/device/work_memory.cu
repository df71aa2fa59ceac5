#include <algorithm>
#include <vector>

#include "binade/cuda/device/capture.cuh"
#include "binade/cuda/device/context.cuh"

/// Workspace of kernels: memory blocks that are never freed, each a stack of allocations. A call releases its memory
/// at its end. The next call may get the same bytes, because all calls run one after the other on one stream. Memory
/// that is never freed may be used in a captured graph; a stream-ordered allocation would become a node of the graph.
namespace binade::cuda {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kSmallest = std::size_t{1} << 20;

/// A stack of allocations in one piece of device memory.
struct Block {
  char* base = nullptr;
  std::size_t capacity = 0;
  std::vector<std::size_t> taken;  // offsets of allocations, in order; a released one is removed when it is on top
  std::vector<bool> released;      // for each allocation: true if it was released
  std::size_t top = 0;

  bool owns(const void* memory) const { return memory >= base && memory < base + capacity; }
};

std::vector<Block>& blocks() {
  static auto* all = new std::vector<Block>;  // never destroyed: the CUDA driver may shut down first
  return *all;
}

char* allocate_block(std::size_t bytes) {
  const AllocationInCapture allowed;
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaSuccess) return static_cast<char*>(memory);
  if (error != cudaErrorMemoryAllocation) check(error, "memory for an op to work in");
  cudaGetLastError();  // resets the runtime's last error, which is handled here, so that the next launch does not
                       // report it
  return nullptr;
}

/// Adds a block as large as the largest so far, or of `bytes` if the device has no memory for that.
Block& grow(std::size_t bytes) {
  std::size_t capacity = std::max(bytes, kSmallest);
  for (const Block& block : blocks()) capacity = std::max(capacity, block.capacity);
  char* base = allocate_block(capacity);
  if (base == nullptr && capacity > bytes) base = allocate_block(capacity = bytes);
  if (base == nullptr)
    throw Failure(Status::kNoMemory, "the device has no " + std::to_string(bytes) + " bytes for an op to work in");
  return blocks().emplace_back(Block{.base = base, .capacity = capacity, .taken = {}, .released = {}});
}

}  // namespace

void* allocate_work(std::size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto block = std::find_if(blocks().begin(), blocks().end(),
                            [&](const Block& b) { return b.capacity - b.top >= bytes; });
  Block& from = block != blocks().end() ? *block : grow(bytes);
  from.taken.push_back(from.top);
  from.released.push_back(false);
  char* memory = from.base + from.top;
  from.top += bytes;
#if !defined(__CUDACC__)
  check(cudaMemsetAsync(memory, 0xff, bytes, context().stream),
        "work memory");  // NaN, so that a test fails if a kernel reads memory that it did not write
#endif
  return memory;
}

void release_work(void* memory) noexcept {
  for (Block& block : blocks()) {
    if (!block.owns(memory)) continue;
    const auto offset = static_cast<std::size_t>(static_cast<char*>(memory) - block.base);
    const auto at = std::lower_bound(block.taken.begin(), block.taken.end(), offset);
    block.released[static_cast<std::size_t>(at - block.taken.begin())] = true;
    while (!block.taken.empty() && block.released.back()) {
      block.top = block.taken.back();
      block.taken.pop_back();
      block.released.pop_back();
    }
    return;
  }
}

}  // namespace binade::cuda
