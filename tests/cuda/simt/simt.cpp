#include "tests/cuda/simt/simt.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/cuda/simt/stream.h"

namespace simt {

Place place;

namespace {

constexpr std::size_t kStack = 128 * 1024;
constexpr std::size_t kMaxShared = 228 * 1024;
constexpr int kWarp = 32;

[[noreturn]] void fault(const char* what) {
  std::fprintf(stderr, "emulated device: %s (block %u, %u, %u)\n", what, place.block.x, place.block.y, place.block.z);
  std::abort();
}

// ---- fibers

/// A saved stack pointer. Registers that must survive a call are on its stack.
struct Fiber {
  void* stack_pointer = nullptr;
  char* stack = nullptr;
};

#if defined(__x86_64__)
extern "C" void simt_switch(void** save, void* resume);
asm(R"(
.text
.globl simt_switch
.hidden simt_switch
.type simt_switch, @function
simt_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size simt_switch, .-simt_switch
)");
void prepare(Fiber& fiber, void (*entry)()) {
  auto* top = reinterpret_cast<std::uintptr_t*>(fiber.stack + kStack);
  *--top = 0;  // keeps the stack aligned as after a call
  *--top = reinterpret_cast<std::uintptr_t>(entry);
  for (int i = 0; i < 6; ++i) *--top = 0;
  fiber.stack_pointer = top;
}
void switch_to(Fiber& from, Fiber& to) { simt_switch(&from.stack_pointer, to.stack_pointer); }
#else
void prepare(Fiber& fiber, void (*entry)()) {
  auto* context = new ucontext_t;
  getcontext(context);
  context->uc_stack.ss_sp = fiber.stack;
  context->uc_stack.ss_size = kStack;
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  delete static_cast<ucontext_t*>(fiber.stack_pointer);
  fiber.stack_pointer = context;
}
void switch_to(Fiber& from, Fiber& to) {
  if (from.stack_pointer == nullptr) from.stack_pointer = new ucontext_t;
  swapcontext(static_cast<ucontext_t*>(from.stack_pointer), static_cast<ucontext_t*>(to.stack_pointer));
}
#endif

// ---- one block

enum class State : std::uint8_t { kReady, kAtBarrier, kAtExchange, kDone };

struct Thread {
  Fiber fiber;
  State state = State::kReady;
  Dim3 index;
  unsigned mask = 0;  // if the thread waits in an exchange: the mask of this exchange
  unsigned turn = 0;  // number of finished exchanges, which alternate between two sets of values
};

struct Block {
  std::vector<Thread> threads;
  std::vector<char*> stacks;  // one per thread of the largest block so far; kept, because mapping them takes longer
                              // than a small launch
  std::vector<std::uint64_t> brought[2];  // per thread
  std::vector<unsigned> arrived;          // per warp: lanes that wait in an exchange
  const std::function<void()>* body = nullptr;
  int running = -1;
  Fiber scheduler;
  alignas(256) char shared[kMaxShared];
};

Block& block() {
  static Block* only = new Block;
  return *only;
}

void yield() { switch_to(block().threads[static_cast<std::size_t>(block().running)].fiber, block().scheduler); }

void fiber_main() {
  Block& b = block();
  (*b.body)();
  b.threads[static_cast<std::size_t>(b.running)].state = State::kDone;
  yield();
  fault("a finished thread ran on");
}

/// Returns the lanes of `mask` that have not arrived at the exchange yet.
unsigned awaited(const Block& b, std::size_t warp, unsigned mask) {
  const std::size_t first = warp * kWarp, count = std::min<std::size_t>(kWarp, b.threads.size() - first);
  unsigned lanes = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (b.threads[first + i].state != State::kDone) lanes |= 1u << i;
  return mask & lanes & ~b.arrived[warp];
}

void resume(std::size_t i) {
  Block& b = block();
  b.running = static_cast<int>(i);
  place.thread = b.threads[i].index;
  switch_to(b.scheduler, b.threads[i].fiber);
}

/// Resumes threads that wait in an exchange at which all lanes of their mask have arrived. Returns true if it resumed
/// any.
bool release_exchanges(Block& b) {
  bool released = false;
  for (std::size_t warp = 0; warp < b.arrived.size(); ++warp) {
    if (b.arrived[warp] == 0) continue;
    const std::size_t first = warp * kWarp, count = std::min<std::size_t>(kWarp, b.threads.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      Thread& thread = b.threads[first + i];
      if (thread.state != State::kAtExchange || awaited(b, warp, thread.mask) != 0) continue;
      const unsigned together = thread.mask & b.arrived[warp];
      for (std::size_t k = 0; k < count; ++k)
        if ((together >> k & 1u) != 0) b.threads[first + k].state = State::kReady;
      b.arrived[warp] &= ~together;
      released = true;
    }
  }
  return released;
}

/// BINADE_SIMT_ORDER=reverse runs each block's threads from the last to the first: a kernel whose result changes with
/// it has a race.
bool reversed() {
  static const bool is = [] {
    const char* order = std::getenv("BINADE_SIMT_ORDER");
    return order != nullptr && std::strcmp(order, "reverse") == 0;
  }();
  return is;
}

void run_block(Block& b) {
  const std::size_t count = b.threads.size();
  for (Thread& thread : b.threads) {
    prepare(thread.fiber, &fiber_main);
    thread.state = State::kReady;
    thread.turn = 0;
  }
  std::fill(b.arrived.begin(), b.arrived.end(), 0u);
  std::memset(b.shared, 0xff, 64);  // NaN, because shared memory is undefined at the start
  while (true) {
    bool ran = false;
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t i = reversed() ? count - 1 - k : k;
      if (b.threads[i].state != State::kReady) continue;
      resume(i);
      ran = true;
    }
    if (release_exchanges(b) || ran) {
      // Threads run until all of them wait; then the barrier is checked.
      const bool ready = std::ranges::any_of(b.threads, [](const Thread& t) { return t.state == State::kReady; });
      if (ready) continue;
    }
    std::size_t done = 0, waiting = 0;
    for (const Thread& thread : b.threads) {
      done += thread.state == State::kDone;
      waiting += thread.state == State::kAtBarrier;
    }
    if (done == count) return;
    if (done + waiting != count) fault("threads of a warp wait for lanes that do not come");
    if (done != 0) fault("threads wait at __syncthreads for threads that have ended");
    for (Thread& thread : b.threads) thread.state = State::kReady;
  }
}

// ---- device memory

constexpr std::size_t kArena = std::size_t{8} << 30;
constexpr std::size_t kPage = 4096, kHugePage = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

struct Arena {
  char* base = nullptr;
  std::map<std::size_t, std::size_t> free;  // offset -> bytes
  std::map<std::size_t, std::size_t> used;
  std::size_t in_use = 0;
  std::size_t high = 0;  // all allocated blocks are below this offset, a multiple of the size of huge pages
  int open = 0;

  Arena() {
    // Uses huge pages if available, because protect() visits every page at each launch.
    void* space = mmap(nullptr, kArena + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) fault("no address space");
    base = reinterpret_cast<char*>(round_up(reinterpret_cast<std::uintptr_t>(space), kHugePage));
    madvise(base, kArena, MADV_HUGEPAGE);
    free[0] = kArena;
  }
  void protect(int how) const {
    if (high > 0) mprotect(base, high, how);
  }
};

Arena& arena() {
  static Arena* only = new Arena;
  return *only;
}

/// Returns the memory of the device, which BINADE_SIMT_MEMORY sets in MiB.
std::size_t capacity() {
  static const std::size_t bytes = [] {
    const char* text = std::getenv("BINADE_SIMT_MEMORY");
    const std::size_t mib = text != nullptr ? std::strtoull(text, nullptr, 10) : 4096;
    return std::min(kArena / 2, mib << 20);
  }();
  return bytes;
}

void run_grid(Dim3 grid, Dim3 extent, const std::function<void()>& thread) {
  const std::size_t count = std::size_t{extent.x} * extent.y * extent.z;
  const Access access;
  Block& b = block();
  while (b.stacks.size() < count) {
    void* stack = mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) fault("no memory for the stack of a thread");
    b.stacks.push_back(static_cast<char*>(stack));
  }
  b.threads.resize(count);
  b.arrived.assign((count + kWarp - 1) / kWarp, 0u);
  for (auto& values : b.brought) values.assign(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    Thread& t = b.threads[i];
    t.fiber.stack = b.stacks[i];
    t.index = {static_cast<unsigned>(i % extent.x), static_cast<unsigned>(i / extent.x % extent.y),
               static_cast<unsigned>(i / extent.x / extent.y)};
  }
  b.body = &thread;
  place.block_extent = extent;
  place.grid_extent = grid;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        place.block = {x, y, z};
        run_block(b);
      }
}

}  // namespace

void launch(Dim3 grid, Dim3 extent, std::size_t shared_bytes, std::function<void()> thread) {
  const std::size_t count = std::size_t{extent.x} * extent.y * extent.z;
  if (count == 0 || count > 1024) fault("a block of 0 or more than 1024 threads");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535) fault("a grid out of range");
  if (shared_bytes > kMaxShared) fault("more shared memory than a block may have");
  send(nullptr, [grid, extent, thread = std::move(thread)] { run_grid(grid, extent, thread); });
}

void* shared() { return block().shared; }

void block_barrier() {
  Block& b = block();
  b.threads[static_cast<std::size_t>(b.running)].state = State::kAtBarrier;
  yield();
}

unsigned lane() { return static_cast<unsigned>(block().running) % kWarp; }

namespace {

/// Stores `mine` and waits until all lanes of `mask` have stored their values. Returns the values of the block's
/// threads.
const std::vector<std::uint64_t>& meet(unsigned mask, std::uint64_t mine) {
  Block& b = block();
  const auto i = static_cast<std::size_t>(b.running);
  Thread& thread = b.threads[i];
  if ((mask >> lane() & 1u) == 0) fault("a lane is not in its own mask");
  std::vector<std::uint64_t>& values = b.brought[thread.turn++ % 2];
  values[i] = mine;
  thread.mask = mask;
  thread.state = State::kAtExchange;
  b.arrived[i / kWarp] |= 1u << lane();
  yield();
  return values;
}

}  // namespace

std::uint64_t exchange(unsigned mask, std::uint64_t mine, unsigned from) {
  const auto& values = meet(mask, mine);
  const auto first = static_cast<std::size_t>(block().running) / kWarp * kWarp;
  if (from >= kWarp || (mask >> from & 1u) == 0 || first + from >= values.size()) return mine;
  return values[first + from];
}

unsigned ballot(unsigned mask, bool mine) {
  const auto& values = meet(mask, mine ? 1 : 0);
  const auto first = static_cast<std::size_t>(block().running) / kWarp * kWarp;
  unsigned lanes = 0;
  for (unsigned i = 0; i < kWarp && first + i < values.size(); ++i)
    if ((mask >> i & 1u) != 0 && values[first + i] != 0) lanes |= 1u << i;
  return lanes;
}

void* allocate(std::size_t bytes) {
  const Access access;
  Arena& a = arena();
  bytes = round_up(bytes, kPage);
  if (bytes > capacity() - std::min(capacity(), a.in_use)) return nullptr;
  for (auto it = a.free.begin(); it != a.free.end(); ++it) {
    if (it->second < bytes) continue;
    const std::size_t offset = it->first, rest = it->second - bytes;
    a.free.erase(it);
    if (rest > 0) a.free[offset + bytes] = rest;
    a.used[offset] = bytes;
    a.in_use += bytes;
    if (offset + bytes > a.high) {
      a.high = round_up(offset + bytes, kHugePage);
      a.protect(PROT_READ | PROT_WRITE);
    }
    std::memset(a.base + offset, 0xff,
                bytes);  // NaN in every floating-point dtype, so that kernels that rely on zeros fail
    return a.base + offset;
  }
  return nullptr;
}

bool release(void* memory) {
  if (memory == nullptr) return true;
  const Access access;
  Arena& a = arena();
  const auto offset = static_cast<std::size_t>(static_cast<char*>(memory) - a.base);
  const auto it = a.used.find(offset);
  if (!owns(memory) || it == a.used.end()) return false;
  std::size_t begin = it->first, bytes = it->second;
  a.in_use -= bytes;
  a.used.erase(it);
  const auto after = a.free.find(begin + bytes);
  if (after != a.free.end()) {
    bytes += after->second;
    a.free.erase(after);
  }
  auto before = a.free.lower_bound(begin);
  if (before != a.free.begin() && (--before)->first + before->second == begin) {
    begin = before->first;
    bytes += before->second;
    a.free.erase(before);
  }
  a.free[begin] = bytes;
  return true;
}

bool owns(const void* memory) {
  const char* at = static_cast<const char*>(memory);
  return at >= arena().base && at < arena().base + kArena;
}

std::size_t bytes_free() { return capacity() - std::min(capacity(), arena().in_use); }

namespace {
std::recursive_mutex& access_mutex() {
  static std::recursive_mutex* mutex = new std::recursive_mutex;
  return *mutex;
}
}  // namespace

Access::Access() {
  access_mutex().lock();
  if (arena().open++ == 0) arena().protect(PROT_READ | PROT_WRITE);
}
Access::~Access() {
  if (--arena().open == 0) arena().protect(PROT_NONE);
  access_mutex().unlock();
}

}  // namespace simt
