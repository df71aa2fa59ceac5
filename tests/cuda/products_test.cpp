#include "core/ops/products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "autograd/functions/matmul.h"
#include "core/observation.h"
#include "core/precision.h"
#include "core/random.h"
#include "cuda/gpu.h"
#include "tests/cuda/device.h"

// What the conformance suite does not reach of products: sums cut into chunks with everything behind them, batches that
// are not evenly spaced, pitches, and what a Finish does in packs.
namespace binade {
namespace {

Tensor random(const Shape& shape, DType dtype, std::uint64_t tag) {
  const RandomStream stream{.seed = 12, .purpose = RngPurpose::kData, .step = tag};
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * stream.uniform(i) - 1;
  return Tensor::from(values, shape).to(dtype);
}

struct Sizes {
  const char* name;
  std::int64_t m, n, k, batch = 1;
  Activation activation = Activation::kNone;
  bool bias = false, keep = false;
};

/// The op's kernel for `device` on the same values: y, then z where it is kept.
std::vector<Tensor> product(const Sizes& s, DType in, DType out, const Device& device, bool irregular = false,
                            bool accumulate = false) {
  const Tensor a = random({s.batch, s.m, s.k}, in, 1).to(device), b = random({s.batch, s.k, s.n}, in, 2).to(device);
  const Tensor bias = random(Shape{s.n}, accumulate_dtype(in), 3).to(device);
  Tensor y = random({s.batch, s.m, s.n}, out, 4).to(device), z = random({s.batch, s.m, s.n}, out, 5).to(device);
  cpu::GemmArgs g{.m = s.m, .n = s.n, .k = s.k, .in = in, .out = out};
  g.a = a.raw();
  g.a_row = s.k;
  g.b = b.raw();
  g.b_row = s.n;
  g.c = y.mutable_raw();
  g.c_row = s.n;
  g.accumulate = accumulate;
  g.bias = s.bias ? bias.raw() : nullptr;
  g.activation = s.activation;
  g.pre_activation = s.keep ? z.mutable_raw() : nullptr;
  g.batch = s.batch;
  std::vector<std::int64_t> a_offsets, b_offsets, c_offsets;
  for (std::int64_t i = 0; i < s.batch; ++i) {
    const std::int64_t from = irregular ? s.batch - 1 - i / 2 : i;
    a_offsets.push_back(from * s.m * s.k);
    b_offsets.push_back(i * s.k * s.n);
    c_offsets.push_back((irregular ? s.batch - 1 - i : i) * s.m * s.n);
  }
  if (s.batch > 1) {
    g.a_offsets = a_offsets.data();
    g.b_offsets = b_offsets.data();
    g.c_offsets = c_offsets.data();
  }
  ops::gemm_slot().on(device, "test").gemm(g);
  std::vector<Tensor> results{y.to(Device::cpu())};
  if (s.keep) results.push_back(z.to(Device::cpu()));
  return results;
}

void expect_close(const Tensor& got, const Tensor& want, double tolerance, const std::string& what) {
  const std::vector<double> have = got.to_vector<double>(), exact = want.to_vector<double>();
  ASSERT_EQ(have.size(), exact.size());
  double scale = 0;
  for (const double v : exact) scale = std::max(scale, std::abs(v));
  for (std::size_t i = 0; i < exact.size(); ++i)
    ASSERT_NEAR(have[i], exact[i], tolerance * scale) << what << ", element " << i;
}

double tolerance_of(DType out) {
  return out == DType::f64 ? 1e-13 : out == DType::f32 ? 4e-6 : out == DType::f16 ? 1e-3 : 8e-3;
}

class CudaProducts : public testing::TestWithParam<Sizes> {};

TEST_P(CudaProducts, AgreeWithTheCpu) {
  const Sizes& s = GetParam();
  for (const auto& [in, out] : std::vector<std::pair<DType, DType>>{{DType::f32, DType::f32},
                                                                    {DType::f16, DType::f16},
                                                                    {DType::bf16, DType::bf16},
                                                                    {DType::bf16, DType::f32},
                                                                    {DType::f64, DType::f64}}) {
    const std::string what(name_of(in));
    const std::vector<Tensor> want = product(s, in, out, Device::cpu());
    ObservationScope scope;
    const std::vector<Tensor> got = product(s, in, out, test_device());
    const Observation seen = scope.take().settled();
    for (std::size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i], tolerance_of(out), what);
    EXPECT_TRUE(out == DType::f64 || (is_half(out) ? seen.low : seen.wide) != 0u) << what << ": nothing was observed";
    EXPECT_EQ(got[0].to_vector<double>(), product(s, in, out, test_device())[0].to_vector<double>());
  }
}

TEST_P(CudaProducts, AgreeWithTheCpuOnIrregularBatches) {
  const Sizes& s = GetParam();
  if (s.batch == 1 || s.bias) return;
  for (const DType in : {DType::f32, DType::bf16, DType::f64})
    expect_close(product(s, in, in, test_device(), true)[0], product(s, in, in, Device::cpu(), true)[0],
                 tolerance_of(in), std::string(name_of(in)));
}

TEST_P(CudaProducts, AddToWhatIsThere) {
  const Sizes& s = GetParam();
  if (s.bias || s.keep || s.activation != Activation::kNone) return;
  for (const DType in : {DType::f32, DType::bf16, DType::f64}) {
    const DType out = accumulate_dtype(in);
    expect_close(product(s, in, out, test_device(), false, true)[0], product(s, in, out, Device::cpu(), false, true)[0],
                 tolerance_of(out), std::string(name_of(in)));
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CudaProducts,
                         testing::Values(Sizes{"one_tile", 64, 64, 16}, Sizes{"past_a_tile", 65, 66, 17},
                                         Sizes{"cut_sum", 40, 24, 2100},
                                         Sizes{"cut_sum_gelu", 40, 24, 1024, 1, Activation::kGelu, true, true},
                                         Sizes{"cut_sum_odd_relu", 3, 7, 1030, 1, Activation::kRelu, true, true},
                                         Sizes{"gelu_tanh", 33, 40, 48, 1, Activation::kGeluTanh, true, true},
                                         Sizes{"relu", 33, 40, 48, 1, Activation::kRelu, false, false},
                                         Sizes{"bias", 33, 40, 48, 1, Activation::kNone, true, false},
                                         Sizes{"batches", 9, 10, 11, 6}, Sizes{"cut_batches", 8, 8, 800, 3}),
                         [](const auto& test) { return test.param.name; });

TEST(CudaColumnSums, AgreeWithTheCpuAtEverySize) {
  for (const auto& [rows, columns, pitch] : std::vector<std::tuple<int, int, int>>{
           {0, 5, 5}, {1, 1, 1}, {3, 8, 8}, {1000, 3, 3}, {4000, 16, 24}, {700, 260, 264}, {130, 300, 301}})
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
      const Tensor x = random({rows, pitch}, dtype, 7);
      std::vector<Tensor> sums;
      for (const Device& device : {Device::cpu(), test_device()}) {
        const Tensor there = x.to(device);
        Tensor s = Tensor::empty(Shape{columns}, accumulate_dtype(dtype), device);
        ops::gemm_slot().on(device, "test").column_sums(there.raw(), dtype, rows, columns, pitch, s.mutable_raw());
        sums.push_back(s.to(Device::cpu()));
      }
      expect_close(sums[1], sums[0], dtype == DType::f64 ? 1e-13 : 1e-5,
                   fmt::format("{} ({}, {}) of {}", name_of(dtype), rows, columns, pitch));
    }
}

TEST(CudaPlans, ATextOfAnotherDeviceIsPassedBy) {
  EXPECT_EQ(cuda::use_plans("cublaslt 1 sm_10 multiprocessors 1\ngemm in=f32 out=f32 m=1\nnonsense\n"), 0);
  const std::string plans = cuda::plans();
  EXPECT_EQ(cuda::use_plans(plans) > 0, !plans.empty());
  EXPECT_EQ(cuda::plans(), plans);
}

}  // namespace
}  // namespace binade
