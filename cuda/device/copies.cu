#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/copies.cuh"
#include "binade/cuda/device/kernels.cuh"

namespace binade::cuda {
namespace {

__global__ void copy_all(const MemoryCopy* pieces) { copy_piece(pieces[blockIdx.x]); }

}  // namespace

void run_copy_all(const CopyAllArgs& call) {
  const std::vector<MemoryCopy> pieces = in_pieces(call.copies, kPieceOfBlock);
  if (pieces.empty()) return;
  const Buffer<MemoryCopy> there(pieces.data(), static_cast<std::int64_t>(pieces.size()));
  launch(copy_all, static_cast<unsigned>(pieces.size()), 256u, 0, there.data());
}

}  // namespace binade::cuda
