#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/copies.cuh"
#include "binade/cuda/device/kernels.cuh"

namespace binade::cuda {
namespace {

__global__ void copy_all(const MemoryCopy* chunks) { copy_chunk(chunks[blockIdx.x]); }

}  // namespace

void run_copy_all(const CopyAllArgs& call) {
  const std::vector<MemoryCopy> chunks = in_chunks(call.copies, kBlockChunk);
  if (chunks.empty()) return;
  const Buffer<MemoryCopy> on_device(chunks.data(), static_cast<std::int64_t>(chunks.size()));
  launch(copy_all, static_cast<unsigned>(chunks.size()), 256u, 0, on_device.data());
}

}  // namespace binade::cuda
