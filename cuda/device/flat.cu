#include <algorithm>
#include <mutex>
#include <vector>

#include "binade/cuda/device/flat.cuh"

namespace binade::cuda {
namespace {

struct Held {
  std::vector<FlatBlock> blocks;
  FlatBlock* on_device = nullptr;
};

constexpr std::size_t kHeld = 8;  // copies of block lists that are cached per process

bool same(std::span<const FlatBlock> a, std::span<const FlatBlock> b) {
  return a.size() == b.size() && std::ranges::equal(a, b, [](const FlatBlock& x, const FlatBlock& y) {
           return x.slice == y.slice && x.count == y.count && x.begin == y.begin;
         });
}

}  // namespace

const FlatBlock* flat_blocks(std::span<const FlatBlock> blocks) {
  if (capturing())  // a captured graph must not use an entry of the cache below, which may be replaced later
    return static_cast<const FlatBlock*>(hold_for_graph(blocks.data(), blocks.size_bytes()));
  static std::mutex* mutex = new std::mutex;
  static std::vector<Held>* held = new std::vector<Held>;  // never destroyed: the CUDA driver may shut down first
  static std::size_t oldest = 0;
  const std::lock_guard lock(*mutex);
  for (const Held& h : *held)
    if (same(h.blocks, blocks)) return h.on_device;
  if (held->size() < kHeld) held->push_back({});
  Held& h = held->back().on_device == nullptr ? held->back() : (*held)[oldest++ % kHeld];
  if (h.on_device != nullptr) check(cudaFree(h.on_device), "blocks");
  h = {};
  void* on_device = nullptr;
  check(cudaMalloc(&on_device, blocks.size_bytes()), "blocks");
  h.on_device = static_cast<FlatBlock*>(on_device);
  h.blocks.assign(blocks.begin(), blocks.end());
  upload(on_device, blocks.data(), blocks.size_bytes());
  return h.on_device;
}

void* staging(std::size_t bytes) {
  require_no_capture("a result that the host waits for");
  static void* memory = nullptr;
  static std::size_t capacity = 0;
  if (bytes <= capacity) return memory;
  if (memory != nullptr) check(cudaFreeHost(memory), "pinned memory");
  memory = nullptr;
  capacity = 0;
  check(cudaHostAlloc(&memory, 2 * bytes, cudaHostAllocDefault), "pinned memory");
  capacity = 2 * bytes;
  return memory;
}

}  // namespace binade::cuda
