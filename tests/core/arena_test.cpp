#include "binade/core/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <thread>

#include "binade/core/caching_backend.h"
#include "binade/core/captured_graph.h"
#include "binade/core/error.h"

// Shared arenas of captured graphs, from which eager code borrows memory (decision 0024). In any order of
// allocations, releases, captures, runs and drops, no write may reach memory that has another owner.
namespace binade {
namespace {

// ---- chunks of one arena

TEST(Arena, SplitsAndMergesChunks) {
  std::vector<char> memory(4096);
  Arena arena(memory.data(), memory.size());
  char* const a = static_cast<char*>(arena.allocate(1));
  char* const b = static_cast<char*>(arena.allocate(257));
  char* const c = static_cast<char*>(arena.allocate(4096 - 768));
  EXPECT_EQ(a, memory.data());
  EXPECT_EQ(b, a + 256);
  EXPECT_EQ(c, b + 512);
  EXPECT_EQ(arena.in_use(), 4096u);
  EXPECT_EQ(arena.allocate(1), nullptr);
  arena.release(a);
  arena.release(c);
  EXPECT_EQ(arena.allocate(4096 - 767), nullptr) << "a and c are apart";
  arena.release(b);
  EXPECT_EQ(arena.chunks_in_use(), 0u);
  EXPECT_EQ(arena.allocate(4096), memory.data()) << "all one piece again";
}

TEST(Arena, AllocatesAtAnOffsetOnlyIfItIsFree) {
  std::vector<char> memory(2048);
  Arena arena(memory.data(), memory.size());
  EXPECT_EQ(arena.allocate_at(512, 512), memory.data() + 512);
  EXPECT_EQ(arena.allocate_at(256, 512), nullptr);
  EXPECT_EQ(arena.allocate_at(512, 256), nullptr);
  EXPECT_EQ(arena.allocate_at(768, 512), nullptr);
  EXPECT_EQ(arena.allocate_at(1792, 512), nullptr);
  EXPECT_EQ(arena.allocate_at(2048, 256), nullptr);
  EXPECT_EQ(arena.allocate_at(256, 256), memory.data() + 256);
  EXPECT_EQ(arena.allocate_at(1024, 1024), memory.data() + 1024);
  EXPECT_EQ(arena.in_use(), 1792u);
}

// ---- a device that runs on the host

/// A captured kernel: writes a block, or checks that the block still has the written value before it is released.
struct Kernel {
  enum class Does { kWrite, kCheck } does;
  unsigned char* at;
  std::size_t bytes;
  unsigned char value;
};

class HostDevice final : public CachingBackend {
 public:
  ~HostDevice() override { trim(); }

  class Run final : public CapturedGraph {
   public:
    Run(HostDevice& device, std::shared_ptr<CapturedMemory> memory) : device_(device), memory_(std::move(memory)) {}
    ~Run() override { device_.release_captured(memory_); }
    void run() override {
      device_.run_captured(*memory_, [this] {
        if (device_.while_submitting) device_.while_submitting();
        for (const Kernel& k : kernels) {
          if (k.does == Kernel::Does::kWrite)
            std::memset(k.at, k.value, k.bytes);
          else
            for (std::size_t i = 0; i < k.bytes; ++i) wrong += k.at[i] != k.value;
        }
      });
    }
    std::size_t arena_bytes() const override { return memory_->blocks.plan().bytes; }
    std::size_t arena_bound() const override { return memory_->blocks.plan().bound; }
    const std::uint32_t* observations() const override { return nullptr; }
    std::int64_t observation_count() const override { return 0; }

    std::vector<Kernel> kernels;
    std::size_t wrong = 0;

   private:
    HostDevice& device_;
    std::shared_ptr<CapturedMemory> memory_;
  };

  /// Captures `body`, which appends its kernels.
  std::unique_ptr<Run> make(const MemoryTrace& trace, const std::function<void(std::vector<Kernel>&)>& body) {
    auto run = std::make_unique<Run>(*this, begin_capture(trace));
    body(run->kernels);
    end_capture();
    return run;
  }

  void copy(void*, const void*, std::size_t, CopyKind, Stream) override {}
  void fill_zero(void*, std::size_t, Stream) override {}
  void synchronize(Stream) override {}
  std::string description() const override { return "host"; }

  std::size_t limit = std::numeric_limits<std::size_t>::max();
  std::size_t obtained = 0;
  std::function<void()> while_submitting;

 private:
  void* allocate_from_system(std::size_t capacity) override {
    if (capacity > limit - obtained) return nullptr;
    obtained += capacity;
    return std::aligned_alloc(Arena::kAlignment,
                              (capacity + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment);
  }
  void release_to_system(void* block, std::size_t capacity) noexcept override {
    obtained -= capacity;
    std::free(block);
  }
  std::string out_of_memory(std::size_t bytes, std::size_t in_use) const override {
    return fmt::format("{} beside {}", bytes, in_use);
  }
};

constexpr Stream kStream{};

/// Returns a trace of blocks that are all alive at the same time.
MemoryTrace together(const std::vector<std::size_t>& sizes) {
  MemoryTrace trace;
  const auto n = static_cast<std::int64_t>(sizes.size());
  for (std::int64_t i = 0; i < n; ++i)
    trace.blocks.push_back({.bytes = sizes[static_cast<std::size_t>(i)], .allocated = i, .released = n + i});
  return trace;
}

std::unique_ptr<HostDevice::Run> record(HostDevice& device, const std::vector<std::size_t>& sizes) {
  return device.make(together(sizes), [&](std::vector<Kernel>& kernels) {
    std::vector<unsigned char*> blocks;
    for (const std::size_t bytes : sizes) {
      blocks.push_back(static_cast<unsigned char*>(device.allocate(bytes, kStream)));
      kernels.push_back({Kernel::Does::kWrite, blocks.back(), bytes, static_cast<unsigned char>(blocks.size())});
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      kernels.push_back({Kernel::Does::kCheck, blocks[i], sizes[i], static_cast<unsigned char>(i + 1)});
      device.release(blocks[i], sizes[i], kStream);
    }
  });
}

TEST(SharedArenas, HaveTheSizeOfTheLargestGraphAndAreFreedWithTheLast) {
  HostDevice device;
  auto large = record(device, {4096, 4096});
  EXPECT_EQ(device.bytes_reserved(), 8192u);
  auto small = record(device, {512}), other = record(device, {8192});
  EXPECT_EQ(device.bytes_reserved(), 8192u);
  EXPECT_EQ(small->arena_bytes(), 512u);
  auto larger = record(device, {16384});
  EXPECT_EQ(device.bytes_reserved(), 8192u + 16384u) << "the smaller one has recordings";
  for (const auto* run : {&large, &small, &other, &larger}) (*run)->run();
  large.reset();
  small.reset();
  EXPECT_EQ(device.bytes_reserved(), 8192u + 16384u);
  other.reset();
  EXPECT_EQ(device.bytes_reserved(), 16384u);
  larger.reset();
  EXPECT_EQ(device.bytes_reserved(), 0u);
}

TEST(SharedArenas, LendMemoryOnlyToThreadsWithAnArenaLoan) {
  HostDevice device;
  const auto run = record(device, {8192});
  void* before = device.allocate(1000, kStream);
  EXPECT_EQ(device.bytes_lent(), 0u);
  void* lent = nullptr;
  {
    const ArenaLoan outer(device);
    { const ArenaLoan inner(device); }
    lent = device.allocate(1000, kStream);
    EXPECT_EQ(device.bytes_lent(), 1024u);
    std::thread([&] { device.release(device.allocate(2000, kStream), 2000, kStream); }).join();
    EXPECT_EQ(device.bytes_lent(), 1024u);
    EXPECT_EQ(device.bytes_in_use(), 2000u);
    void* too_large = device.allocate(8192, kStream);
    EXPECT_EQ(device.bytes_lent(), 1024u);
    device.release(too_large, 8192, kStream);
  }
  void* behind = device.allocate(1000, kStream);
  EXPECT_EQ(device.bytes_lent(), 1024u);
  for (void* block : {before, lent, behind}) device.release(block, 1000, kStream);
  EXPECT_EQ(device.bytes_lent(), 0u);
  EXPECT_EQ(device.bytes_in_use(), 0u);
  device.reset_peak();
  run->run();
  EXPECT_EQ(device.bytes_peak(), 8192u) << "a run uses its arena";
}

TEST(SharedArenas, RefuseToRunAndCaptureWhileMemoryIsOnLoan) {
  HostDevice device;
  auto run = record(device, {8192});
  const ArenaLoan lending(device);
  void* lent = device.allocate(1000, kStream);
  std::memset(lent, 77, 1000);
  try {
    run->run();
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_STREQ(error.what(),
                 "the captured graph cannot run: 1024 of the 8192 bytes of its arena are still on loan, in 1 blocks");
  }
  EXPECT_THROW(record(device, {512}), DeviceError);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(static_cast<unsigned char*>(lent)[i], 77);
  device.release(lent, 1000, kStream);
  run->run();
  EXPECT_NE(record(device, {512}), nullptr);
}

TEST(SharedArenas, LendNothingWhileAGraphIsSubmitted) {
  HostDevice device;
  const auto run = record(device, {8192});
  const ArenaLoan lending(device);
  device.while_submitting = [&] {
    void* block = device.allocate(1000, kStream);
    EXPECT_EQ(device.bytes_lent(), 0u);
    device.release(block, 1000, kStream);
  };
  run->run();
  device.while_submitting = [] { throw DeviceLostError("gone"); };
  EXPECT_THROW(run->run(), DeviceLostError);
  void* block = device.allocate(1000, kStream);
  EXPECT_EQ(device.bytes_lent(), 1024u) << "afterwards they are";
  device.release(block, 1000, kStream);
}

TEST(SharedArenas, StayUntilBorrowedMemoryIsReleased) {
  HostDevice device;
  auto run = record(device, {8192});
  void* lent = nullptr;
  {
    const ArenaLoan lending(device);
    lent = device.allocate(1000, kStream);
    run.reset();
    EXPECT_EQ(device.bytes_lent(), 0u) << "nobody waits for it";
    EXPECT_EQ(device.bytes_reserved(), 8192u);
    void* other = device.allocate(1000, kStream);
    EXPECT_EQ(device.bytes_reserved(), 8192u + 1024u) << "nothing more is lent of it";
    device.release(other, 1000, kStream);
  }
  run = record(device, {8192});
  EXPECT_EQ(device.bytes_reserved(), 2 * 8192u + 1024u);
  run->run();
  device.release(lent, 1000, kStream);
  EXPECT_EQ(device.bytes_reserved(), 8192u + 1024u);
}

TEST(SharedArenas, OutOfMemoryErrorsCountTheArenas) {
  HostDevice device;
  device.limit = 10000;
  const auto run = record(device, {8192});
  try {
    device.allocate(4096, kStream);
    FAIL();
  } catch (const OutOfMemoryError& error) {
    EXPECT_STREQ(error.what(), "4096 beside 8192");
  }
  const ArenaLoan lending(device);
  void* lent = device.allocate(4096, kStream);
  EXPECT_THROW(device.allocate(8192, kStream), OutOfMemoryError);
  EXPECT_THROW(record(device, {16384}), OutOfMemoryError);
  device.release(lent, 4096, kStream);
  run->run();
}

// ---- events in random order

/// Applies random events to a device, and compares its state with a model of it after each event.
class RandomEvents {
 public:
  explicit RandomEvents(unsigned seed) : random_(seed) {}

  void step() {
    switch (below(12)) {
      case 0:
      case 1:
      case 2: take(); break;
      case 3:
      case 4: give_back(); break;
      case 5: make(); break;
      case 6:
      case 7:
      case 8: run(); break;
      case 9:
        if (lending_.size() < 2) lending_.push_back(std::make_unique<ArenaLoan>(device_));
        break;
      case 10:
        if (!lending_.empty()) lending_.pop_back();
        break;
      default:
        if (below(3) == 0) device_.trim();
        if (below(3) == 0) drop();
    }
    ASSERT_EQ(device_.bytes_reserved(), device_.obtained);
    ASSERT_EQ(device_.bytes_in_use(), in_use());
  }
  void end() {
    lending_.clear();
    captured_.clear();
    while (!blocks_.empty()) give_back();
    EXPECT_EQ(device_.bytes_in_use(), 0u);
    EXPECT_EQ(device_.bytes_lent(), 0u);
    device_.trim();
    EXPECT_EQ(device_.bytes_reserved(), 0u);
    EXPECT_EQ(device_.obtained, 0u);
    EXPECT_GT(runs, 0);
    EXPECT_GT(refusals, 0);
    EXPECT_GT(lendings, 0);
  }

  int runs = 0, refusals = 0, lendings = 0;

 private:
  struct Block {
    unsigned char* at;
    std::size_t bytes;
    unsigned char value;
  };
  struct Captured {
    std::unique_ptr<HostDevice::Run> run;
    std::vector<Block> writes;   // blocks that captured code writes and that stay allocated after a run
    std::size_t given_back = 0;  // bytes that were released; the graph keeps them until it is dropped
  };

  unsigned below(unsigned n) { return random_() % n; }
  std::size_t size() { return std::size_t{1} + below(below(4) == 0 ? 20000 : 1500); }
  unsigned char value() { return static_cast<unsigned char>(1 + below(255)); }
  std::size_t in_use() const {
    std::size_t sum = 0;
    for (const Block& b : blocks_) sum += b.bytes;
    for (const Captured& captured : captured_) sum += captured.given_back;
    return sum;
  }

  Block fresh() {
    Block b{.at = nullptr, .bytes = size(), .value = value()};
    b.at = static_cast<unsigned char*>(device_.allocate(b.bytes, kStream));
    return b;
  }
  void take() {
    blocks_.push_back(fresh());
    std::memset(blocks_.back().at, blocks_.back().value, blocks_.back().bytes);
    lendings += device_.bytes_lent() > 0;
  }
  Block pick() {
    std::swap(blocks_[below(static_cast<unsigned>(blocks_.size()))], blocks_.back());
    const Block b = blocks_.back();
    blocks_.pop_back();
    return b;
  }
  void give_back() {
    if (blocks_.empty()) return;
    const Block b = pick();
    expect_intact(b);
    // A block that captured graphs write stays allocated until all of them are dropped. The model assigns it to the
    // last.
    for (Captured& captured : captured_)
      for (const Block& w : captured.writes)
        if (w.at == b.at) {
          captured.given_back += b.bytes;
          device_.release(b.at, b.bytes, kStream);
          return;
        }
    device_.release(b.at, b.bytes, kStream);
  }
  static void expect_intact(const Block& b) {
    ASSERT_TRUE(std::all_of(b.at, b.at + b.bytes, [&](unsigned char v) { return v == b.value; })) << b.bytes;
  }

  /// Captures code that allocates and releases blocks in random order, may keep one block, and may release a block that
  /// it did not allocate.
  void make() {
    if (captured_.size() >= 4) return drop();
    MemoryTrace trace;
    struct Act {
      std::size_t block;
      bool takes;
    };
    std::vector<Act> acts;
    std::vector<std::size_t> alive;
    std::int64_t event = 0;
    const unsigned blocks = 1 + below(12);
    while (trace.blocks.size() < blocks || !alive.empty()) {
      if (trace.blocks.size() < blocks && (alive.empty() || below(2) == 0)) {
        alive.push_back(trace.blocks.size());
        acts.push_back({trace.blocks.size(), true});
        trace.blocks.push_back({.bytes = size(), .allocated = event++});
      } else {
        std::swap(alive[below(static_cast<unsigned>(alive.size()))], alive.back());
        acts.push_back({alive.back(), false});
        trace.blocks[alive.back()].released = event++;
        alive.pop_back();
      }
    }
    const bool keeps = below(3) == 0, gives_back = below(3) == 0 && !blocks_.empty();
    if (keeps) trace.blocks.push_back({.bytes = size(), .allocated = event++});
    Captured captured;
    const auto body = [&](std::vector<Kernel>& kernels) {
      std::vector<Block> taken(trace.blocks.size());
      for (const Act& act : acts) {
        Block& b = taken[act.block];
        if (act.takes) {
          b = {.at = static_cast<unsigned char*>(device_.allocate(trace.blocks[act.block].bytes, kStream)),
               .bytes = trace.blocks[act.block].bytes,
               .value = value()};
          kernels.push_back({Kernel::Does::kWrite, b.at, b.bytes, b.value});
        } else {
          kernels.push_back({Kernel::Does::kCheck, b.at, b.bytes, b.value});
          device_.release(b.at, b.bytes, kStream);
        }
      }
      if (keeps) {
        Block& b = taken.back();
        b = {.at = static_cast<unsigned char*>(device_.allocate(trace.blocks.back().bytes, kStream)),
             .bytes = trace.blocks.back().bytes,
             .value = value()};
        std::memset(b.at, b.value, b.bytes);
        kernels.push_back({Kernel::Does::kWrite, b.at, b.bytes, b.value});
        blocks_.push_back(b);
        captured.writes.push_back(b);
      }
      if (gives_back) {
        // From now on the graph keeps this block allocated. No other graph writes it.
        const Block b = pick_free();
        if (b.at == nullptr) return;
        kernels.push_back({Kernel::Does::kWrite, b.at, b.bytes, 200});
        device_.release(b.at, b.bytes, kStream);
        captured.given_back += b.bytes;
      }
    };
    const std::size_t lent_now = device_.bytes_lent();
    try {
      captured.run = device_.make(trace, body);
    } catch (const DeviceError&) {
      ASSERT_GT(lent_now, 0u);
      return;
    }
    captured_.push_back(std::move(captured));
  }
  /// Removes and returns a block that no captured graph writes.
  Block pick_free() {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      bool written = false;
      for (const Captured& captured : captured_)
        for (const Block& w : captured.writes) written |= w.at == blocks_[i].at;
      if (written) continue;
      std::swap(blocks_[i], blocks_.back());
      if (blocks_.back().at == nullptr) continue;
      const Block b = blocks_.back();
      blocks_.pop_back();
      return b;
    }
    return {};
  }
  void run() {
    if (captured_.empty()) return;
    Captured& captured = captured_[below(static_cast<unsigned>(captured_.size()))];
    const std::size_t lent_now = device_.bytes_lent();
    try {
      captured.run->run();
      ++runs;
    } catch (const DeviceError&) {
      ASSERT_GT(lent_now, 0u);
      ++refusals;
    }
    ASSERT_EQ(captured.run->wrong, 0u);
    for (const Block& b : blocks_) expect_intact(b);
  }
  void drop() {
    if (captured_.empty()) return;
    captured_.erase(captured_.begin() + below(static_cast<unsigned>(captured_.size())));
  }

  std::mt19937 random_;
  HostDevice device_;
  std::vector<Block> blocks_;
  std::vector<Captured> captured_;
  std::vector<std::unique_ptr<ArenaLoan>> lending_;
};

TEST(SharedArenas, DoNotOverwriteMemoryInUseInAnyOrderOfEvents) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    RandomEvents events(seed);
    for (int i = 0; i < 1000; ++i) {
      events.step();
      if (testing::Test::HasFatalFailure()) return;
    }
    events.end();
  }
}

}  // namespace
}  // namespace binade
