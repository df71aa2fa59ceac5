#include "binade/core/memory_plan.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <deque>
#include <random>

#include "binade/core/backend.h"
#include "binade/core/captured_graph.h"
#include "binade/core/cpu_backend.h"
#include "binade/core/tensor.h"

namespace binade {
namespace {

/// Returns a trace of `count` blocks that are released in random order, with about `alive` blocks at a time.
MemoryTrace random_trace(std::size_t count, std::size_t alive, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  MemoryTrace trace;
  std::vector<std::size_t> open;
  std::int64_t event = 0;
  const auto size = [&] { return std::size_t{1} << (random() % 20) | random() % 4096; };
  while (trace.blocks.size() < count) {
    if (!open.empty() && random() % (2 * alive) < open.size()) {
      std::swap(open[random() % open.size()], open.back());
      trace.blocks[open.back()].released = event++;
      open.pop_back();
    } else {
      open.push_back(trace.blocks.size());
      trace.blocks.push_back({.bytes = size(), .allocated = event++});
    }
  }
  return trace;  // blocks that are still allocated are kept for good
}

/// Returns the trace of a network: forward keeps a block per layer and uses temporary blocks; backward releases the
/// kept blocks in reverse order.
MemoryTrace layers(std::size_t count) {
  MemoryTrace trace;
  std::vector<std::size_t> kept;
  std::int64_t event = 0;
  const auto take = [&](std::size_t bytes) {
    trace.blocks.push_back({.bytes = bytes, .allocated = event++});
    return trace.blocks.size() - 1;
  };
  const auto give_back = [&](std::size_t block) { trace.blocks[block].released = event++; };
  for (std::size_t layer = 0; layer < count; ++layer) {
    const std::size_t work = take(3000 + layer % 7 * 1000);
    kept.push_back(take(10000 + layer % 3 * 500));
    const std::size_t more = take(7777);
    give_back(work);
    kept.push_back(take(40000));
    give_back(more);
  }
  std::size_t gradient = take(10000);
  while (!kept.empty()) {
    const std::size_t next = take(10000 + kept.size() % 5 * 2000);
    give_back(kept.back());
    kept.pop_back();
    give_back(gradient);
    gradient = next;
  }
  give_back(gradient);
  return trace;
}

void expect_valid(const MemoryTrace& trace, const MemoryPlan& plan, std::size_t alignment) {
  ASSERT_EQ(plan.offsets.size(), trace.blocks.size());
  EXPECT_GE(plan.bytes, plan.bound);
  for (std::size_t i = 0; i < trace.blocks.size(); ++i) {
    const MemoryTrace::Block& a = trace.blocks[i];
    if (a.released == MemoryTrace::kKept) {
      EXPECT_EQ(plan.offsets[i], MemoryPlan::kNone);
      continue;
    }
    ASSERT_EQ(plan.offsets[i] % alignment, 0u);
    ASSERT_LE(plan.offsets[i] + a.bytes, plan.bytes);
    for (std::size_t k = 0; k < i; ++k) {
      const MemoryTrace::Block& b = trace.blocks[k];
      if (b.released == MemoryTrace::kKept || a.allocated > b.released || b.allocated > a.released) continue;
      ASSERT_TRUE(plan.offsets[i] + a.bytes <= plan.offsets[k] || plan.offsets[k] + b.bytes <= plan.offsets[i])
          << i << " and " << k << " overlap";
    }
  }
}

TEST(MemoryPlan, BlocksThatAreAliveTogetherDoNotOverlap) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const MemoryTrace trace = random_trace(20 + seed * 30, 1 + seed * 3, seed);
    const std::size_t alignment = seed % 2 == 0 ? 256 : 64;
    expect_valid(trace, plan_memory(trace, alignment), alignment);
  }
}

TEST(MemoryPlan, IsEmptyIfNoBlockIsReleased) {
  EXPECT_EQ(plan_memory({}, 64).bytes, 0u);
  const MemoryPlan plan = plan_memory({{{.bytes = 100, .allocated = 0}}}, 64);
  EXPECT_EQ(plan.bytes, 0u);
  EXPECT_EQ(plan.offsets[0], MemoryPlan::kNone);
}

TEST(MemoryPlan, IsAFunctionOfTheTrace) {
  const MemoryTrace trace = random_trace(500, 40, 7);
  EXPECT_EQ(plan_memory(trace, 256).offsets, plan_memory(trace, 256).offsets);
}

TEST(MemoryPlan, SizeIsNearTheBoundForLayers) {
  for (const std::size_t count : {1, 5, 48, 400}) {
    const MemoryTrace trace = layers(count);
    const MemoryPlan plan = plan_memory(trace, 256);
    expect_valid(trace, plan, 256);
    EXPECT_LE(static_cast<double>(plan.bytes), 1.05 * static_cast<double>(plan.bound)) << count << " layers";
  }
}

/// The hardest case: lifetimes without structure.
TEST(MemoryPlan, SizeIsNearTheBoundForRandomBlocks) {
  for (const std::size_t count : {300, 3000}) {
    const MemoryPlan plan = plan_memory(random_trace(count, 60, count), 256);
    EXPECT_LE(static_cast<double>(plan.bytes), 1.1 * static_cast<double>(plan.bound)) << count;
  }
}

TEST(MemoryPlan, SizeIsNearTheBoundForTensOfThousandsOfBlocks) {
  for (const MemoryTrace& trace : {random_trace(50000, 300, 1), random_trace(20000, 2000, 1), layers(10000)}) {
    const auto begin = std::chrono::steady_clock::now();
    const MemoryPlan plan = plan_memory(trace, 256);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    const double over = static_cast<double>(plan.bytes) / static_cast<double>(plan.bound);
    std::printf("%zu blocks: %.2f s, %.3f of the bound\n", trace.blocks.size(), took.count(), over);
    EXPECT_LE(over, 1.05);
  }
}

TEST(MemoryTrace, RecordsAllocationsAndReleases) {
  Backend& cpu = cpu_backend();
  Tensor before = Tensor::empty({100});
  Tensor kept;
  const MemoryTrace trace = cpu.trace([&] {
    Tensor a = Tensor::empty({10});
    before = Tensor();
    kept = Tensor::empty({20});
    a = Tensor::empty({30});
  });
  ASSERT_EQ(trace.blocks.size(), 3u);
  EXPECT_EQ(trace.blocks[0].bytes, 40u);
  EXPECT_EQ(trace.blocks[0].allocated, 0);
  EXPECT_EQ(trace.blocks[0].released, 3);
  EXPECT_EQ(trace.blocks[1].released, MemoryTrace::kKept);
  EXPECT_EQ(trace.blocks[2].released, 4);
  EXPECT_THROW(cpu.trace([&] { cpu.trace([] {}); }), DeviceError);
  EXPECT_TRUE(cpu.trace([] {}).blocks.empty()) << "a trace that failed has ended";
  EXPECT_EQ(cpu.capture([] {}, trace), nullptr);
}

TEST(MemoryTrace, MarksOfACpuAreReachedAtOnce) {
  Backend& cpu = cpu_backend();
  auto* pinned = static_cast<float*>(cpu.allocate_pinned(sizeof(float)));
  *pinned = 3;
  Tensor there = Tensor::empty({1});
  cpu.copy_later(there.mutable_raw(), pinned, sizeof(float), CopyKind::kHostToDevice, {});
  const std::uint64_t mark = cpu.mark({});
  EXPECT_TRUE(cpu.reached(mark));
  cpu.wait_for(mark);
  EXPECT_EQ(there.item(), 3.0);
  cpu.release_pinned(pinned);
}

}  // namespace
}  // namespace binade
