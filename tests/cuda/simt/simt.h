#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

/// Runs a kernel on the host as a GPU would: block after block, every thread of a block with a stack of its own, so
/// that
/// __syncthreads and shuffles wait for each other as they do there. Slow and exact: what it is for is telling wrong
/// kernels from right ones where there is no GPU. One kernel runs at a time.
namespace simt {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

/// Runs `thread` once for every thread of every block. A block of which some threads wait for others that have ended or
/// wait elsewhere is a fault of the kernel's: the process ends and says so. `thread` holds copies of the arguments: a
/// launch that is captured runs later.
void launch(Dim3 grid, Dim3 block, std::size_t shared_bytes, std::function<void()> thread);

/// The running thread's place.
struct Place {
  Dim3 thread, block, block_extent, grid_extent;
};
extern Place place;

/// The block's dynamic shared memory.
void* shared();

void block_barrier();
/// Waits for the lanes of `mask` and returns what lane `from` brought; a lane outside the mask or the warp gives its
/// own.
std::uint64_t exchange(unsigned mask, std::uint64_t mine, unsigned from);
/// The lanes of `mask` that brought true.
unsigned ballot(unsigned mask, bool mine);
unsigned lane();

/// Device memory: readable and writable while a kernel or a copy runs, and at no other time. A host that looks into it
/// ends as it would with a GPU.
void* allocate(std::size_t bytes);
bool release(void* memory);
bool owns(const void* memory);
std::size_t bytes_free();
/// Opens the memory for its lifetime.
class Access {
 public:
  Access();
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
};

}  // namespace simt
