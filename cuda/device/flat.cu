#include <algorithm>
#include <mutex>
#include <vector>

#include "binade/cuda/device/flat.cuh"

namespace binade::cuda {
namespace {

/// A list of blocks and its copy on the device.
struct CachedList {
  std::vector<FlatBlock> blocks;
  FlatBlock* on_device = nullptr;
};

constexpr std::size_t kMostCached = 8;  // copies of block lists that are cached per process

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
  static std::vector<CachedList>* cache =
      new std::vector<CachedList>;  // never destroyed: the CUDA driver may shut down first
  static std::size_t oldest = 0;
  const std::lock_guard lock(*mutex);
  for (const CachedList& c : *cache)
    if (same(c.blocks, blocks)) return c.on_device;
  if (cache->size() < kMostCached) cache->push_back({});
  CachedList& c = cache->back().on_device == nullptr ? cache->back() : (*cache)[oldest++ % kMostCached];
  if (c.on_device != nullptr) check(cudaFree(c.on_device), "blocks");
  c = {};
  void* on_device = nullptr;
  check(cudaMalloc(&on_device, blocks.size_bytes()), "blocks");
  c.on_device = static_cast<FlatBlock*>(on_device);
  c.blocks.assign(blocks.begin(), blocks.end());
  upload(on_device, blocks.data(), blocks.size_bytes());
  return c.on_device;
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
