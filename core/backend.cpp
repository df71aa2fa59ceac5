#include "binade/core/backend.h"

#include <cstdlib>

#include "binade/core/captured_graph.h"
#include "binade/core/error.h"
#include "binade/core/memory_plan.h"

// Default implementations of Backend's functions, for a device that completes each piece of work before the call that
// submits it returns.
namespace binade {

void* Backend::allocate_pinned(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  void* memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  check<OutOfMemoryError>(memory != nullptr, "the host has no memory for {} more bytes", bytes);
  return memory;
}
void Backend::release_pinned(void* memory) noexcept { std::free(memory); }
void Backend::copy_later(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream stream) {
  copy(to, from, bytes, kind, stream);
}

std::uint64_t Backend::mark(Stream) { return 1; }
bool Backend::reached(std::uint64_t) { return true; }
void Backend::wait_for(std::uint64_t) {}

MemoryTrace Backend::trace(const std::function<void()>& body) {
  body();
  return {};
}
std::unique_ptr<CapturedGraph> Backend::capture(const std::function<void()>&, const MemoryTrace&) { return nullptr; }

}  // namespace binade
