#include "binade/core/observation.h"

#include <gtest/gtest.h>

#include "binade/autograd/functions/conv.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/core/gpus.h"
#include "tests/cuda/agree.h"
#include "tests/cuda/device.h"

// Observation of the values that kernels and libraries store on a device.
namespace binade {
namespace {

Variable input(const Shape& shape, std::uint64_t tag) {
  return Variable(random_values(shape, tag).to(DType::f32).to(test_device()));
}

/// Returns the observation of a product and a convolution, which a library computes if there is one.
Observation seen_of_library_ops() {
  ObservationScope scope;
  linear(input({4, 16}, 1), input({24, 16}, 2));
  conv2d(input({1, 8, 8, 16}, 3), input({16, 3, 3, 16}, 4));
  return scope.take().synchronized();
}

TEST(Observations, OfLibrariesAreMadeOnRequest) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  EXPECT_NE(seen_of_library_ops().wide, 0u);
  const bool library = !gpus::plans().empty();
  {
    const OwnKernelsOnly own;
    EXPECT_EQ(seen_of_library_ops().wide == 0, library) << "kernels of ours observe in any case";
    ObservationScope scope;
    const Variable x = input({4, 16}, 6);
    const Variable y = x + x;
    EXPECT_NE(scope.take().synchronized().wide, 0u);
  }
  EXPECT_NE(seen_of_library_ops().wide, 0u) << "the scope is over";
}

TEST(Observations, AreNotMadeWithoutAnObserver) {
  if (gpus::count() == 0) GTEST_SKIP() << gpus::why_none();
  const Variable x = input({4, 16}, 1);
  const Variable sum = x + x;
  EXPECT_EQ(gpus::next_observation(), 0) << "no number was taken";
  ObservationScope scope;
  EXPECT_FALSE(scope.take().any());
  const Variable product = x * x;
  EXPECT_GT(gpus::next_observation(), 0);
}

}  // namespace
}  // namespace binade
