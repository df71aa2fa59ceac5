#include "binade/core/per_thread.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "binade/core/kernels/scratch.h"
#include "binade/core/precision.h"
#include "binade/core/step_context.h"
#include "tests/core/no_memory.h"

namespace binade {
namespace {

std::string g_destroyed;

template <char kName>
struct RecordsDestruction {
  ~RecordsDestruction() { g_destroyed += kName; }
  int uses = 0;
};

constinit thread_local PerThread<RecordsDestruction<'a'>> t_a;
constinit thread_local PerThread<RecordsDestruction<'b'>> t_b;

/// The destructor uses t_a. t_a was created later, so it is already destroyed.
struct Late {
  ~Late() { ++t_a.get().uses; }
};
constinit thread_local PerThread<Late> t_late;

TEST(PerThread, EachThreadHasItsOwnObjectsAndDestroysThemInReverseOrder) {
  g_destroyed.clear();
  t_a.get().uses = 7;
  std::thread([] {
    EXPECT_EQ(t_a.get().uses, 0);
    ++t_a.get().uses;
    ++t_b.get().uses;
    EXPECT_EQ(t_a.get().uses, 1);
  }).join();
  EXPECT_EQ(g_destroyed, "ba");
  std::thread([] { t_b.get(); }).join();
  EXPECT_EQ(g_destroyed, "bab");
  EXPECT_EQ(t_a.get().uses, 7);
}

TEST(PerThread, AnObjectThatADestructorRecreatesIsDestroyedToo) {
  g_destroyed.clear();
  std::thread([] {
    t_late.get();
    t_a.get();
  }).join();
  EXPECT_EQ(g_destroyed, "aa");
}

// Before a fix, glibc ended the process: "Fatal glibc error: failed to register TLS destructor".
TEST(PerThread, AThreadWithoutMemoryGetsBadAllocAndContinues) {
  EXPECT_EQ(test::exit_status_without_memory([] {
              if (!step_context().module_path.empty() || current_policy().low != DType::f32) return 2;
              try {
                cpu::scratch(cpu::ScratchSlot::kImage, 1 << 20);
                return 3;
              } catch (const std::bad_alloc&) {
                return 0;
              }
            }),
            test::kMemoryCanRunOut ? 0 : 3);
}

}  // namespace
}  // namespace binade
