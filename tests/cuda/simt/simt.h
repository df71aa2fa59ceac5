#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

/// Runs CUDA kernels on the host, to test them without a GPU: block after block, with a stack for every thread of a
/// block, so that __syncthreads and shuffles wait as on a GPU. Slow. One kernel runs at a time.
namespace simt {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

/// Runs `thread` once for every thread of every block. If threads of a block wait for threads that have ended or wait
/// elsewhere, the kernel is wrong, and the process ends with a message. `thread` contains copies of the arguments,
/// because a captured launch runs later.
void launch(Dim3 grid, Dim3 block, std::size_t shared_bytes, std::function<void()> thread);

/// The indices of the running thread and its block.
struct Place {
  Dim3 thread, block, block_extent, grid_extent;
};
extern Place place;

/// The block's dynamic shared memory.
void* shared();

void block_barrier();
/// Waits for the lanes of `mask` and returns the value of lane `from`; if that is outside of the mask or the warp,
/// returns `mine`.
std::uint64_t exchange(unsigned mask, std::uint64_t mine, unsigned from);
/// Returns the lanes of `mask` whose value is true.
unsigned ballot(unsigned mask, bool mine);
unsigned lane();

/// Allocates device memory, which is accessible only while a kernel or a copy runs. Host code that reads it crashes, as
/// it would with a GPU.
void* allocate(std::size_t bytes);
bool release(void* memory);
bool owns(const void* memory);
std::size_t bytes_free();
/// Makes device memory accessible during its lifetime.
class Access {
 public:
  Access();
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
};

}  // namespace simt
