#pragma once

#include "binade/cuda/device/context.cuh"
#include "binade/cuda/device/vector.cuh"

/// Kernels that compute every pixel of an image batch (N, H, W, C) by itself, V neighboring channels a thread.
namespace binade::cuda {

/// The grid of pixels that threads share: neighbors of a warp take neighboring channels, then pixels.
struct Pixels {
  std::int64_t images = 0, height = 0, width = 0, channels = 0;

  /// f(image, h, w, c) for the pieces of V channels that this thread takes.
  template <int V, class F>
  __device__ void each(F&& f) const {
    const std::int64_t across = channels / V, count = images * height * width * across;
    const std::int64_t thread = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    if (count >> 31 == 0)  // divisions of 64 bits cost several times those of 32
      walk<V>(static_cast<std::uint32_t>(thread), static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(count),
              static_cast<std::uint32_t>(across), static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(height),
              f);
    else
      walk<V>(thread, step, count, across, width, height, f);
  }

  /// Blocks of kThreads that fill the device.
  static constexpr int kThreads = 256;
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
