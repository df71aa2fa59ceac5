#include "binade/core/backend.h"

#include <gtest/gtest.h>

#include "binade/autograd/functions/elementwise.h"
#include "binade/core/error.h"
#include "binade/core/gpus.h"
#include "binade/core/observation.h"
#include "binade/cuda/gpu.h"

// Tests of errors that only a device can have. They run on a GPU, or on the emulated device if BINADE_CUDA_MODULE names
// it.
namespace binade {
namespace {

const Device kGpu = Device::cuda();

std::vector<float> counted(std::size_t n) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i) - 3;
  return values;
}

TEST(GpuBackend, CopiesToTheDeviceAndBack) {
  const std::vector<float> values = counted(1001);
  const Tensor there = Tensor::from(values, {7, 143}).to(kGpu);
  EXPECT_EQ(there.device(), kGpu);
  EXPECT_EQ(there.to_vector<float>(), values);
  EXPECT_EQ(there.clone().to(DType::bf16).to(DType::f32).to_vector<float>(),
            Tensor::from(values, {7, 143}).to(DType::bf16).to_vector<float>());
  const Tensor slice = there.channel_slice(3, 11);
  EXPECT_EQ(slice.to_vector<float>(), Tensor::from(values, {7, 143}).channel_slice(3, 11).to_vector<float>());
}

TEST(GpuBackend, FillsAndAddsInPlace) {
  Tensor x = Tensor::full({3, 5}, 1.5, DType::f16, kGpu);
  accumulate(x, Tensor::full({3, 5}, 0.25, DType::f32, kGpu));
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(15, 1.75f));
  Tensor labels = Tensor::full({4}, 9, DType::i64, kGpu);
  EXPECT_EQ(labels.to(DType::i32).to_vector<std::int32_t>(), std::vector<std::int32_t>(4, 9));
  EXPECT_EQ(Tensor::zeros({2, 2}, DType::boolean, kGpu).to_vector<std::uint8_t>(), std::vector<std::uint8_t>(4, 0));
}

TEST(GpuBackend, OutOfMemoryIsAnErrorWithTheSize) {
  const std::size_t before = backend_of(kGpu).bytes_in_use();
  try {
    Tensor::empty({std::int64_t{1} << 42}, DType::f32, kGpu);
    FAIL() << "16 TiB were found";
  } catch (const OutOfMemoryError& error) {
    EXPECT_NE(std::string(error.what()).find("cuda:0: no memory for 16384.000 GiB more"), std::string::npos)
        << error.what();
    EXPECT_EQ(error.exit_code(), 50);
  }
  EXPECT_EQ(backend_of(kGpu).bytes_in_use(), before);
  EXPECT_EQ(Tensor::full({8}, 2, DType::f32, kGpu).to_vector<float>(), std::vector<float>(8, 2.0f)) << "it goes on";
}

TEST(GpuBackend, AMissingGpuIsAnErrorThatListsTheOthers) {
  try {
    backend_of(Device::cuda(gpus::count() + 3));
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("GPUs"), std::string::npos) << error.what();
  }
}

TEST(GpuBackend, OperandsOfTwoDevicesAreRefused) {
  const Variable here(Tensor::full({3}, 1)), there(Tensor::full({3}, 1, DType::f32, kGpu));
  EXPECT_THROW(here + there, DeviceError);
}

/// A step with telemetry reads hundreds of observations. They must arrive with one wait, not with one wait each.
TEST(GpuObservation, ManyArriveWithOneWait) {
  const Variable x(Tensor::full({64}, 2, DType::f32, kGpu));
  std::vector<Observation> seen;
  const std::uint64_t before = cuda::waits();
  for (int i = 0; i < 50; ++i) {
    ObservationScope scope;
    const Variable y = x * static_cast<double>(i);
    seen.push_back(scope.take());
  }
  EXPECT_EQ(cuda::waits(), before);
  for (int i = 0; i < 50; ++i) {
    const Observation settled = seen[static_cast<std::size_t>(i)].synchronized();
    const float largest = std::bit_cast<float>(settled.wide);
    EXPECT_EQ(largest, i == 0 ? std::bit_cast<float>(1u) : 2.0f * static_cast<float>(i));
  }
  EXPECT_LE(cuda::waits(), before + 1);
}

TEST(GpuObservation, ANestedScopeDoesNotAffectTheOuterOne) {
  const Variable x(Tensor::full({8}, 3, DType::f32, kGpu));
  ObservationScope outer;
  const Variable a = x * static_cast<double>(5);
  {
    ObservationScope inner;
    const Variable b = x * static_cast<double>(100);
    EXPECT_EQ(std::bit_cast<float>(inner.take().synchronized().wide), 300.0f);
  }
  const Variable c = x * static_cast<double>(2);
  EXPECT_EQ(std::bit_cast<float>(outer.take().synchronized().wide), 15.0f);
}

TEST(GpuObservation, ObservationsOnTheDeviceCanBeMerged) {
  const Variable x(Tensor::full({8}, 3, DType::f32, kGpu));
  Observation sum;
  for (const double factor : {2.0, 7.0, 4.0}) {
    ObservationScope scope;
    const Variable y = x * static_cast<double>(factor);
    sum.merge(scope.take());
  }
  EXPECT_EQ(std::bit_cast<float>(sum.synchronized().wide), 21.0f);
}

TEST(GpuObservation, AFullRingBufferIsCopiedInParts) {
  const Variable x(Tensor::full({4}, 1, DType::f32, kGpu));
  std::vector<Observation> seen;
  constexpr int kMany = 20000;
  for (int i = 1; i <= kMany; ++i) {
    ObservationScope scope;
    const Variable y = x * static_cast<double>(i);
    seen.push_back(scope.take());
  }
  EXPECT_EQ(std::bit_cast<float>(seen.back().synchronized().wide), static_cast<float>(kMany));
  EXPECT_EQ(std::bit_cast<float>(seen[kMany - 100].synchronized().wide), static_cast<float>(kMany - 99));
}

}  // namespace
}  // namespace binade
