#include "binade/core/cpu_backend.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "binade/core/caching_backend.h"
#include "binade/core/error.h"

namespace binade {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kLarge = std::size_t{1} << 20;  // bytes; blocks of at least this size are allocated by mmap()
constexpr std::size_t kHugePage = std::size_t{2} << 20;

class CpuBackend final : public CachingBackend {
 public:
  void copy(void* to, const void* from, std::size_t bytes, CopyKind, Stream) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void fill_zero(void* memory, std::size_t bytes, Stream) override {
    if (bytes > 0) std::memset(memory, 0, bytes);
  }
  void synchronize(Stream) override {}
  std::string description() const override {
    return fmt::format("cpu: {} hardware threads", std::thread::hardware_concurrency());
  }

 private:
  void* allocate_from_system(std::size_t capacity) override {
    if (capacity < kLarge) return std::aligned_alloc(kAlignment, capacity);
    void* block = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return nullptr;
    if (capacity >= kHugePage) madvise(block, capacity, MADV_HUGEPAGE);  // if it fails, the memory is only slower
    return block;
  }
  void release_to_system(void* block, std::size_t capacity) noexcept override {
    if (capacity < kLarge)
      std::free(block);
    else
      munmap(block, capacity);
  }
  std::string out_of_memory(std::size_t bytes, std::size_t in_use) const override {
    constexpr double kMiB = 1024.0 * 1024.0;
    return fmt::format(
        "cpu: no memory for {:.1f} MiB more beside the {:.1f} MiB in use; use a smaller batch or context",
        static_cast<double>(bytes) / kMiB, static_cast<double>(in_use) / kMiB);
  }
};

}  // namespace

Backend& cpu_backend() {
  static CpuBackend* backend = new CpuBackend;  // never destroyed: tensors may outlive main's statics
  return *backend;
}

}  // namespace binade
