#include "binade/core/ops/products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "binade/autograd/functions/matmul.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/gpus.h"
#include "binade/core/kernels/table.h"
#include "binade/core/observation.h"
#include "binade/core/precision.h"
#include "binade/core/random.h"
#include "binade/core/step_context.h"
#include "binade/cuda/gpu.h"
#include "tests/cuda/device.h"

// Products beyond the conformance suite: sums that are split into chunks, with every epilogue; batches that are not
// evenly spaced; pitches; epilogues in packs.
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
  bool low_bias = false;  // true: the bias has the 16-bit dtype of the product
};

/// Runs the kernel of `device`. Returns y and, if it is stored, z.
std::vector<Tensor> product(const Sizes& s, DType in, DType out, const Device& device, bool irregular = false,
                            bool accumulate = false) {
  const Tensor a = random({s.batch, s.m, s.k}, in, 1).to(device), b = random({s.batch, s.k, s.n}, in, 2).to(device);
  const bool low_bias = s.low_bias && is_half(out);
  Tensor bias = random(Shape{s.n}, low_bias ? out : accumulate_dtype(in), 3).to(device);
  Tensor y = random({s.batch, s.m, s.n}, out, 4).to(device), z = random({s.batch, s.m, s.n}, out, 5).to(device);
  GemmArgs g{.m = s.m, .n = s.n, .k = s.k, .in = in, .out = out};
  g.a = a.raw();
  g.a_row = s.k;
  g.b = b.raw();
  g.b_row = s.n;
  g.c = y.mutable_raw();
  g.c_row = s.n;
  g.accumulate = accumulate;
  g.low_bias = low_bias && kernels(device).low_bias;
  if (low_bias && !g.low_bias) bias = bias.to(DType::f32);  // converted, with the same values
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
  kernels(device).gemm(g);
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
    const Observation seen = scope.take().synchronized();
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

TEST_P(CudaProducts, AddToExistingValues) {
  const Sizes& s = GetParam();
  if (s.bias || s.keep || s.activation != Activation::kNone) return;
  for (const DType in : {DType::f32, DType::bf16, DType::f64}) {
    const DType out = accumulate_dtype(in);
    expect_close(product(s, in, out, test_device(), false, true)[0], product(s, in, out, Device::cpu(), false, true)[0],
                 tolerance_of(out), std::string(name_of(in)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, CudaProducts,
    testing::Values(Sizes{"one_tile", 64, 64, 16}, Sizes{"past_a_tile", 65, 66, 17}, Sizes{"cut_sum", 40, 24, 2100},
                    Sizes{"cut_sum_gelu", 40, 24, 1024, 1, Activation::kGelu, true, true},
                    Sizes{"cut_sum_odd_relu", 3, 7, 1030, 1, Activation::kRelu, true, true},
                    Sizes{"gelu_tanh", 33, 40, 48, 1, Activation::kGeluTanh, true, true},
                    Sizes{"relu", 33, 40, 48, 1, Activation::kRelu, false, false},
                    Sizes{"bias", 33, 40, 48, 1, Activation::kNone, true, false},
                    Sizes{"low_bias", 33, 40, 48, 1, Activation::kNone, true, false, true},
                    Sizes{"low_bias_relu", 33, 40, 48, 1, Activation::kRelu, true, false, true},
                    Sizes{"low_bias_gelu", 33, 40, 48, 1, Activation::kGelu, true, true, true},
                    Sizes{"low_bias_tanh", 33, 40, 48, 1, Activation::kGeluTanh, true, true, true},
                    Sizes{"low_bias_odd_gelu", 5, 7, 9, 1, Activation::kGelu, true, true, true},
                    Sizes{"low_bias_odd_tanh", 5, 7, 9, 1, Activation::kGeluTanh, true, true, true},
                    Sizes{"low_bias_cut", 40, 24, 2100, 1, Activation::kGelu, true, true, true},
                    Sizes{"batches", 9, 10, 11, 6}, Sizes{"cut_batches", 8, 8, 800, 3}),
    [](const auto& test) { return test.param.name; });

bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

/// If there is a library, its product includes the GELU, or a note says that the library cannot do this.
TEST(CudaProductsOfALibrary, IncludeAGeluOrANoteSaysWhyNot) {
  const Sizes s{"", 35, 40, 48, 1, Activation::kGeluTanh, true, true, true};
  product(s, DType::bf16, DType::bf16, test_device());
  if (!has(gpus::plans(), "m=35 n=40 k=48") && !has(gpus::plans(), "product 35 40 48"))
    GTEST_SKIP() << "no library is there; on the emulated device, BINADE_SIMT_LIBRARY=1 has one";
  const bool noted = has(gpus::notes(), "product 35 x 40 x 48: the library has no form for it with a GELU") ||
                     has(gpus::notes(), "product 35 x 40 x 48: the library has no form for it with a bias");
  EXPECT_NE(has(gpus::plans(), "gelu_aux"), noted) << gpus::plans() << gpus::notes();
}

TEST_P(CudaProducts, DoNotDependOnWhetherZIsKept) {
  Sizes s = GetParam();
  if (!s.keep) return;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    s.keep = true;
    const Tensor kept = product(s, dtype, dtype, test_device())[0];
    s.keep = false;
    EXPECT_EQ(product(s, dtype, dtype, test_device())[0].to_vector<double>(), kept.to_vector<double>());
  }
}

/// The results of a library are observed like those of kernels: the maximum is at least that of the stored values, and
/// is infinite if a bias is beyond f16's range.
TEST(CudaProductsWatched, ResultsOfALibraryAreObserved) {
  const std::int64_t m = 8, n = 16, k = 8;
  for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kGelu, Activation::kGeluTanh})
    for (const float value : {100.f, -100.f, std::numeric_limits<float>::infinity()}) {
      const Tensor a = Tensor::zeros({m, k}, DType::f16, test_device()),
                   b = Tensor::zeros({k, n}, DType::f16, test_device());
      std::vector<float> values(static_cast<std::size_t>(n), 0.0f);
      values[5] = value;
      const Tensor bias = Tensor::from(values, Shape{n}).to(DType::f16).to(test_device());
      const bool keep = activation == Activation::kGelu || activation == Activation::kGeluTanh;
      Tensor y = Tensor::empty({m, n}, DType::f16, test_device()), z = Tensor::empty({m, n}, DType::f16, test_device());
      GemmArgs g{.m = m, .n = n, .k = k, .in = DType::f16, .out = DType::f16};
      g.a = a.raw();
      g.a_row = k;
      g.b = b.raw();
      g.b_row = n;
      g.c = y.mutable_raw();
      g.c_row = n;
      g.bias = bias.raw();
      g.low_bias = true;
      g.activation = activation;
      if (keep) g.pre_activation = z.mutable_raw();
      ObservationScope scope;
      kernels(test_device()).gemm(g);
      const std::uint32_t seen = scope.take().synchronized().low;
      const bool visible = value > 0 || keep || activation == Activation::kNone;
      EXPECT_EQ(seen, visible ? std::bit_cast<std::uint32_t>(std::abs(value)) : 1u) << static_cast<int>(activation);
    }
}

/// Depending on device and library, the product multiplies by the activation derivative, or a separate pass does.
/// Results may differ by one rounding, because the separate pass reads the rounded product.
TEST(CudaProductsDerivative, AgreesWithTheCpu) {
  for (const auto& [m, n, k] : std::vector<std::tuple<int, int, int>>{{33, 40, 48}, {5, 7, 9}, {40, 24, 2100}})
    for (const Activation derivative_of : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh})
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
        std::vector<Tensor> results;
        for (const Device& device : {Device::cpu(), test_device()}) {
          const Tensor a = random({m, k}, dtype, 1).to(device), b = random({k, n}, dtype, 2).to(device),
                       z = random({m, n}, dtype, 3).to(device);
          Tensor y = Tensor::empty({m, n}, dtype, device);
          GemmArgs g{.m = m, .n = n, .k = k, .in = dtype, .out = dtype};
          g.a = a.raw();
          g.a_row = k;
          g.b = b.raw();
          g.b_row = n;
          g.c = y.mutable_raw();
          g.c_row = n;
          g.derivative_of = derivative_of;
          g.derivative_at = z.raw();
          ObservationScope scope;
          kernels(device).gemm(g);
          const Observation seen = scope.take().synchronized();
          EXPECT_TRUE(dtype == DType::f64 || (is_half(dtype) ? seen.low : seen.wide) != 0u) << "nothing was observed";
          results.push_back(y.to(Device::cpu()));
        }
        expect_close(results[1], results[0], 1.5 * tolerance_of(dtype),
                     fmt::format("{} {} {} {}", name_of(dtype), m, n, k));
      }
}

TEST(CudaProductsDerivative, IsInTheLibraryProductOrANoteSaysWhyNot) {
  if (test_device() == Device::cpu()) GTEST_SKIP() << "needs a GPU, or the emulated one";
  const auto plain = [](DType dtype, Activation derivative_of) {
    return !kernels(test_device()).derivative_in_product(derivative_of, dtype);
  };
  EXPECT_TRUE(plain(DType::f32, Activation::kGeluTanh));
  EXPECT_TRUE(plain(DType::bf16, Activation::kGelu));
  EXPECT_TRUE(plain(DType::bf16, Activation::kRelu));
  if (plain(DType::bf16, Activation::kGeluTanh))
    GTEST_SKIP() << "this device has no library with a fast one; on the emulated device, BINADE_SIMT_LIBRARY=1 has it";
  const PolicyScope policy(PrecisionPolicy{.low = DType::bf16});
  const Variable x(random({21, 16}, DType::bf16, 1).to(test_device())),
      up(random({56, 16}, DType::f32, 2).to(test_device()), true),
      down(random({8, 56}, DType::f32, 3).to(test_device()), true);
  backward(sum(linear(linear(x, up, {}, {.activation = Activation::kGeluTanh}), down)));
  const bool fused = has(gpus::plans(), "dgelu");
  const bool noted = has(gpus::notes(),
                         "product 21 x 56 x 8: the library has no form for it with an activation derivative");
  EXPECT_NE(fused, noted) << gpus::plans() << gpus::notes();
}

/// An infinite sum is infinite or NaN after the multiplication by the activation derivative, and is observed.
TEST(CudaProductsDerivative, InfinitiesAreObserved) {
  for (const float at : {-50.f, 3.f}) {
    const Tensor a = Tensor::full({4, 8}, 1e30, DType::bf16, test_device()),
                 b = Tensor::full({8, 16}, 1e30, DType::bf16, test_device()),
                 z = Tensor::full({4, 16}, at, DType::bf16, test_device());
    Tensor y = Tensor::empty({4, 16}, DType::bf16, test_device());
    GemmArgs g{.m = 4, .n = 16, .k = 8, .in = DType::bf16, .out = DType::bf16};
    g.a = a.raw();
    g.a_row = 8;
    g.b = b.raw();
    g.b_row = 16;
    g.c = y.mutable_raw();
    g.c_row = 16;
    g.derivative_of = Activation::kGeluTanh;
    g.derivative_at = z.raw();
    ObservationScope scope;
    kernels(test_device()).gemm(g);
    const double value = y.to(Device::cpu()).at(0);
    EXPECT_FALSE(std::isfinite(value)) << value;
    EXPECT_GE(scope.take().synchronized().low, 0x7f800000u) << value;
  }
}

TEST(CudaProductsActivationBackward, SumsTheColumnsOfItsResult) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int, int>>{{0, 5}, {1, 1}, {3, 8}, {1000, 3}, {2100, 16}, {700, 264}, {130, 301}})
    for (const Activation activation : {Activation::kRelu, Activation::kGelu, Activation::kGeluTanh})
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
        const KernelTable& table = kernels(test_device());
        const Tensor z = random({rows, columns}, dtype, 8).to(test_device()),
                     gy = random({rows, columns}, dtype, 9).to(test_device());
        const auto backward = [&](void* sums, Observation& seen) {
          Tensor gz = Tensor::empty({rows, columns}, dtype, test_device());
          ObservationScope scope;
          table.activation_backward({activation, dtype, z.raw(), gy.raw(), gz.mutable_raw(), rows, columns, sums});
          seen = scope.take().synchronized();
          return gz;
        };
        Tensor sums = Tensor::empty(Shape{columns}, accumulate_dtype(dtype), test_device()), wanted = sums.clone();
        Observation seen, seen_alone;
        const Tensor gz = backward(sums.mutable_raw(), seen), alone = backward(nullptr, seen_alone);
        table.column_sums({alone.raw(), dtype, rows, columns, columns, wanted.mutable_raw()});
        const std::string what = fmt::format("{} ({}, {})", name_of(dtype), rows, columns);
        EXPECT_EQ(gz.to_vector<double>(), alone.to_vector<double>()) << what;
        EXPECT_EQ(sums.to_vector<double>(), wanted.to_vector<double>()) << what;
        EXPECT_TRUE(rows == 0 || (seen.low == seen_alone.low && seen.wide == seen_alone.wide)) << what;
      }
}

/// Under a 16-bit policy, a GPU reads the bias as the 16-bit copy of the parameter, which the optimizer writes; a CPU
/// reads it in f32.
TEST(CudaProductsBias, IsReadInTheDtypeOfTheProduct) {
  if (test_device() == Device::cpu()) GTEST_SKIP() << "needs a GPU, or the emulated one";
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const bool trained : {true, false}) {
      const PolicyScope policy(PrecisionPolicy{.low = dtype});
      std::vector<std::vector<float>> y;
      const Tensor x = random({4, 16}, dtype, 1), w = random({8, 16}, DType::f32, 2), b = random({8}, DType::f32, 3);
      for (const Device& device : {test_device(), Device::cpu()}) {
        const bool gpu = device == test_device();
        const Variable weight(w.to(device), trained);
        const Variable bias((gpu ? b : b.to(dtype).to(DType::f32)).to(device), trained);
        const Variable result = linear(Variable(x.to(device)), weight, bias);
        EXPECT_EQ(bias.state()->low.defined(), gpu && trained) << name_of(dtype);
        EXPECT_EQ(bias.dtype(), DType::f32);
        y.push_back(result.value().to_vector<float>());
        if (!trained) continue;
        backward(sum(result));
        EXPECT_EQ(bias.grad().dtype(), DType::f32);
        EXPECT_EQ(bias.grad().to_vector<float>(), std::vector<float>(8, 4.0f));
      }
      const double ulp = dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
      for (std::size_t i = 0; i < y[0].size(); ++i)
        EXPECT_NEAR(y[0][i], y[1][i], ulp * std::abs(y[1][i])) << name_of(dtype) << " " << i;
    }
  const PolicyScope policy(PrecisionPolicy{.low = DType::bf16}.with("linear", DType::f32));
  const Variable bias(random({8}, DType::f32, 3).to(test_device()), true);
  linear(Variable(random({4, 16}, DType::f32, 1).to(test_device())),
         Variable(random({8, 16}, DType::f32, 2).to(test_device()), true), bias);
  EXPECT_FALSE(bias.state()->low.defined()) << "an override to f32 means f32";
}

TEST(CudaColumnSums, AgreeWithTheCpuAtEverySize) {
  for (const auto& [rows, columns, pitch] : std::vector<std::tuple<int, int, int>>{
           {0, 5, 5}, {1, 1, 1}, {3, 8, 8}, {1000, 3, 3}, {4000, 16, 24}, {700, 260, 264}, {130, 300, 301}})
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
      const Tensor x = random({rows, pitch}, dtype, 7);
      std::vector<Tensor> sums;
      for (const Device& device : {Device::cpu(), test_device()}) {
        const Tensor there = x.to(device);
        Tensor s = Tensor::empty(Shape{columns}, accumulate_dtype(dtype), device);
        kernels(device).column_sums({there.raw(), dtype, rows, columns, pitch, s.mutable_raw()});
        sums.push_back(s.to(Device::cpu()));
      }
      expect_close(sums[1], sums[0], dtype == DType::f64 ? 1e-13 : 1e-5,
                   fmt::format("{} ({}, {}) of {}", name_of(dtype), rows, columns, pitch));
    }
}

TEST(CudaPlans, PlansOfAnotherDeviceAreSkipped) {
  EXPECT_EQ(gpus::use_plans("cublaslt 1 sm_10 multiprocessors 1\ngemm in=f32 out=f32 m=1\nnonsense\n"), 0);
  const std::string plans = gpus::plans();
  EXPECT_EQ(gpus::use_plans(plans) > 0, !plans.empty());
  EXPECT_EQ(gpus::plans(), plans);
}

}  // namespace
}  // namespace binade
