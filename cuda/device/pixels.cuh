#pragma once

#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/vector.cuh"

/// Code of kernels that compute every pixel of an image batch (N, H, W, C) independently. A thread computes V
/// neighboring channels of a pixel at a time.
namespace binade::cuda {

/// The pixels of a batch, divided among the threads of a grid. Neighboring threads of a warp process neighboring
/// channels, then neighboring pixels.
struct Pixels {
  std::int64_t images = 0, height = 0, width = 0, channels = 0;

  /// Calls f(image, h, w, c) for this thread's vectors of V channels.
  template <int V, class F>
  __device__ void each(F&& f) const {
    const std::int64_t across = channels / V, count = images * height * width * across;
    const std::int64_t thread = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    if (count >> 31 == 0)  // 64-bit divisions cost several times those of 32 bits
      walk<V>(static_cast<std::uint32_t>(thread), static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(count),
              static_cast<std::uint32_t>(across), static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(height),
              f);
    else
      walk<V>(thread, step, count, across, width, height, f);
  }

  static constexpr int kThreads = 256;  ///< threads of a block
  /// Returns the number of blocks of a grid that fills the device, for v channels per thread.
  unsigned grid(int v) const { return grid_for(ceil_div(images * height * width * (channels / v), kThreads)); }

 private:
  template <int V, class Index, class F>
  __device__ __forceinline__ void walk(Index i, Index step, Index count, Index across, Index cols, Index rows,
                                       F& f) const {
    for (; i < count; i += step) {
      const Index pixel = i / across, line = pixel / cols;
      const Index image = line / rows;
      f(static_cast<std::int64_t>(image), static_cast<std::int64_t>(line - image * rows),
        static_cast<std::int64_t>(pixel - line * cols), static_cast<std::int64_t>(i - pixel * across) * V);
    }
  }
};

}  // namespace binade::cuda
