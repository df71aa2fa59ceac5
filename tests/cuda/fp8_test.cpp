#include "binade/core/ops/fp8.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "binade/amp/policy.h"
#include "binade/autograd/functions/matmul.h"
#include "binade/core/backend.h"
#include "binade/core/captured_graph.h"
#include "binade/core/gpus.h"
#include "binade/core/kernels/table.h"
#include "binade/core/memory_plan.h"
#include "binade/core/ops/products.h"
#include "binade/cuda/api.h"
#include "binade/cuda/gpu.h"
#include "binade/cuda/rules.h"
#include "binade/nn/linear.h"
#include "tests/cuda/agree.h"
#include "tests/cuda/device.h"

namespace binade {
namespace {

bool on_a_gpu() {
  return std::ranges::any_of(gpus::versions(),
                             [](const auto& v) { return v.first == "cublaslt" && !v.second.empty(); });
}
/// Returns true if the device has products of 8-bit codes; the emulated device has.
bool gpus_have_codes() {
  const cuda::DeviceFacts& facts = *cuda::facts();
  return cuda::why_no_fp8_codes(10 * facts.major + facts.minor, 16, 16, 16).empty();
}

/// Compares products of codes with the CPU's. On the emulated device the bits must be equal. On a GPU an error of 2^-13
/// of the largest is allowed, because Hopper's Tensor Cores align products before they add them, and keep about 14
/// bits.
void expect_products(const Tensor& got, const Tensor& want, std::string_view what) {
  const std::vector<float> a = got.to_vector<float>(), b = want.to_vector<float>();
  ASSERT_EQ(a.size(), b.size()) << what;
  float largest = 0;
  for (const float x : b) largest = std::max(largest, std::abs(x));
  const float allowed = on_a_gpu() ? 0x1p-13f * largest : 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_LE(std::abs(a[i] - b[i]), allowed) << what << ", element " << i << ": " << a[i] << ", the CPU has " << b[i];
}

struct Operand {
  const char* name;
  Shape shape;
  std::int64_t before = 0;  // number of channels before these in a wider tensor
  std::int64_t behind = 0;
};

const Operand kOperands[] = {
    {"one", {1}},
    {"packs", {6, 64}},
    {"odd", {7, 13}},
    {"many", {130, 1024}},
    {"row", {1, 24}, 8, 8},
    {"slice", {9, 24}, 8, 16},
    {"odd_slice", {9, 5}, 3},
    {"no_rows", {0, 8}},
    {"piece", {16, 16}},
    {"beyond_a_tile", {144, 272}},
    {"tall", {2, 133, 24}},
};

class CudaFp8 : public testing::TestWithParam<Operand> {
 protected:
  void SetUp() override { test_device(); }
};

/// Returns values over many binades, with zeros and, if large enough, an infinity and a NaN.
Tensor operand(const Operand& o) {
  const Shape whole = o.shape.with_dim(-1, o.before + o.shape.cols() + o.behind);
  Tensor values = random_values(whole, 3, -1, 1);
  for (std::int64_t i = 0; i < values.numel(); ++i)
    values.mutable_data<double>()[i] *= std::exp2(static_cast<double>(i % 23) - 15);
  if (values.numel() > 300) {
    values.mutable_data<double>()[17] = std::nan("");
    values.mutable_data<double>()[200] = -std::numeric_limits<double>::infinity();
    values.mutable_data<double>()[201] = 0;
  }
  return values.to(DType::bf16);
}
Tensor sliced(const Tensor& whole, const Operand& o) { return whole.channel_slice(o.before, o.shape.cols()); }

void expect_same(const Tensor& got, const Tensor& wanted) {
  const std::vector<float> a = got.to_vector<float>(), b = wanted.to_vector<float>();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) << i << ": " << a[i] << ", wanted " << b[i];
}

TEST_P(CudaFp8, RoundsToTheBitsOfTheCpuWithTheSameHistory) {
  const Tensor here = operand(GetParam()), there = here.to(test_device());
  for (const auto what : {ops::Fp8Operand::kX, ops::Fp8Operand::kWeight, ops::Fp8Operand::kGradient}) {
    Tensor amaxes = ops::fp8_amaxes(Device::cpu()), device_amaxes = amaxes.to(test_device());
    const auto round_both = [&](const ops::Fp8Scaling& on_cpu, const ops::Fp8Scaling& on_device) {
      expect_same(ops::round_to_fp8(sliced(there, GetParam()), what, on_device),
                  ops::round_to_fp8(sliced(here, GetParam()), what, on_cpu));
      expect_same(device_amaxes, amaxes);
    };
    round_both({}, {});
    round_both({amaxes, true}, {device_amaxes, true});  // without a history
    for (int step = 0; step < 3; ++step) {
      ops::begin_fp8_step(amaxes);
      ops::begin_fp8_step(device_amaxes);
      // Histories that are too small, too large, and infinite because of a fault.
      const float factor = step == 0 ? 0.01f : step == 1 ? 300.0f : std::numeric_limits<float>::infinity();
      for (const int row : {0, 1, 2}) amaxes.mutable_data<float>()[17 * row + 1] *= factor;
      device_amaxes.copy_from(amaxes.to(test_device()));
      round_both({amaxes, true}, {device_amaxes, true});
      round_both({amaxes, false}, {device_amaxes, false});
    }
  }
}

/// Returns the decoded values, rounded to bf16.
std::vector<float> decoded(const Tensor& codes, const Tensor& scale, Float8 format) {
  std::vector<float> values;
  const float unit = scale.to_vector<float>().at(0);
  for (const std::uint8_t code : codes.to_vector<std::uint8_t>()) values.push_back(from_float8(code, format) * unit);
  return values;
}

TEST_P(CudaFp8, CodesByRowsAndByColumnsEqualTheCpusRounding) {
  if (!gpus_have_codes()) GTEST_SKIP() << "this GPU has no 8-bit products";
  const Tensor here = operand(GetParam()), there = here.to(test_device());
  const Tensor from = sliced(there, GetParam());
  const std::int64_t rows = from.shape().rows(), cols = from.shape().cols();
  for (const auto what : {ops::Fp8Operand::kX, ops::Fp8Operand::kWeight, ops::Fp8Operand::kGradient}) {
    for (const float factor : {0.0f, 1.0f, 0.01f, 300.0f, 1e-30f, std::numeric_limits<float>::infinity()}) {
      // An empty history, one that fits, one that is too small, too large, far too small, and infinite because of a
      // fault.
      Tensor amaxes = ops::fp8_amaxes(Device::cpu());
      for (const int row : {0, 1, 2}) amaxes.mutable_data<float>()[17 * row + 1] = factor;
      Tensor device_amaxes = amaxes.to(test_device());
      const Tensor wanted = ops::round_to_fp8(sliced(here, GetParam()), what, {amaxes, true});
      const ops::Fp8Codes codes = ops::encode_to_fp8(from, what, {device_amaxes, true}, true, true);
      expect_same(device_amaxes, amaxes);
      ASSERT_EQ(codes.rows.shape(), (Shape{rows, cols}));
      ASSERT_EQ(codes.columns.shape(), (Shape{cols, rows}));
      expect_same(Tensor::from(decoded(codes.rows, codes.scale, ops::format_of(what)), {rows, cols}), wanted);
      const std::vector<std::uint8_t> by_rows = codes.rows.to_vector<std::uint8_t>();
      const std::vector<std::uint8_t> by_columns = codes.columns.to_vector<std::uint8_t>();
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < cols; ++c)
          ASSERT_EQ(by_columns[static_cast<std::size_t>(c * rows + r)], by_rows[static_cast<std::size_t>(r * cols + c)])
              << r << ", " << c;
      const ops::Fp8Codes only_rows = ops::encode_to_fp8(from, what, {device_amaxes, true}, true, false);
      const ops::Fp8Codes only_columns = ops::encode_to_fp8(from, what, {device_amaxes, true}, false, true);
      EXPECT_FALSE(only_rows.columns.defined() || only_columns.rows.defined());
      EXPECT_EQ(only_rows.rows.to_vector<std::uint8_t>(), by_rows);
      EXPECT_EQ(only_columns.columns.to_vector<std::uint8_t>(), by_columns);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operands, CudaFp8, testing::ValuesIn(kOperands),
                         [](const auto& test) { return test.param.name; });

TEST(CudaFp8Choice, CodesAreUsedIfTheDeviceHasProductsOfThem) {
  using cuda::why_no_fp8_codes;
  EXPECT_EQ(why_no_fp8_codes(90, 16, 48, 32), "");
  EXPECT_EQ(why_no_fp8_codes(89, 8192, 768, 50304), "");
  EXPECT_EQ(why_no_fp8_codes(100, 16, 16, 16), "");
  for (const int capability : {80, 86, 87})
    EXPECT_NE(why_no_fp8_codes(capability, 16, 48, 32).find("compute capability"), std::string_view::npos);
  for (const std::int64_t rows : {0, 1, 8, 24}) EXPECT_NE(why_no_fp8_codes(90, rows, 48, 32), "") << rows;
  for (const std::int64_t wrong : {0, 8, 40, 50257}) {
    EXPECT_NE(why_no_fp8_codes(90, 16, wrong, 32), "") << wrong;
    EXPECT_NE(why_no_fp8_codes(90, 16, 48, wrong), "") << wrong;
  }
  EXPECT_FALSE(ops::multiplies_fp8_codes(Device::cpu(), 16, 48, 32));
  EXPECT_EQ(ops::multiplies_fp8_codes(test_device(), 16, 48, 32), gpus_have_codes());
  const std::string told = gpus::notes();
  EXPECT_FALSE(ops::multiplies_fp8_codes(test_device(), 16, 1000, 24));
  EXPECT_FALSE(ops::multiplies_fp8_codes(test_device(), 16, 1000, 24));
  const std::string notes = gpus::notes().substr(told.size());
  EXPECT_TRUE(notes.starts_with("8-bit linear layer of 1000 inputs and 24 outputs: multiplied in bf16: ")) << notes;
  EXPECT_EQ(std::ranges::count(notes, '\n'), 1) << "told once";
}

struct Layer {
  const char* name;
  std::int64_t rows, in, out;
  bool coded;
  Activation activation = Activation::kNone;
};
const Layer kLayers[] = {
    {"values", 21, 40, 24, false},
    {"codes", 16, 48, 32, true},
    {"codes_relu", 48, 32, 16, true, Activation::kRelu},
    {"odd_rows", 21, 48, 32, false},
};

/// Returns multiples of `unit`, whose products and sums are exact in any order.
Tensor whole(const Shape& shape, std::uint64_t tag, double unit) {
  Tensor t = random_values(shape, tag, -200, 200);
  for (std::int64_t i = 0; i < t.numel(); ++i) t.mutable_data<double>()[i] = std::round(t.at(i)) * unit;
  return t.to(DType::bf16);
}

class CudaFp8Linear : public testing::TestWithParam<Layer> {
 protected:
  PolicyScope fp8_{amp::Policy::fp8()};
};

TEST_P(CudaFp8Linear, StepsHaveTheBitsOfTheCpu) {
  const Layer& l = GetParam();
  ASSERT_EQ(ops::multiplies_fp8_codes(test_device(), l.rows, l.in, l.out), l.coded && gpus_have_codes());
  nn::Linear layer({.in = l.in, .out = l.out, .activation = l.activation});
  nn::use_fp8(layer);
  const Variable weight(whole({l.out, l.in}, 1, 0x1p-12).to(DType::f32), true),
      bias(whole({l.out}, 2, 0x1p-5).to(DType::f32), true);
  Tensor amaxes = ops::fp8_amaxes(Device::cpu());
  layer.weight.mutable_value().copy_from(weight.value().to(test_device()));
  layer.bias.mutable_value().copy_from(bias.value().to(test_device()));
  for (std::uint32_t step = 0; step < 3; ++step) {
    const Tensor x = whole({1, l.rows, l.in}, 10 + step, std::exp2(3.0 * step)),
                 gy = whole({1, l.rows, l.out}, 20 + step, 0x1p-20);
    const Variable here(x, true), there(x.to(test_device()), true);
    ops::begin_fp8_step(amaxes);
    const Variable y = linear(here, weight, bias, {.activation = l.activation, .fp8 = ops::Fp8Scaling{amaxes, true}}),
                   device_y = layer(there);
    expect_products(device_y.value(), y.value(), "y");
    backward(y, gy);
    backward(device_y, gy.to(test_device()));
    expect_products(there.grad(), here.grad(), "gradient of x");
    expect_products(layer.weight.grad(), weight.grad(), "gradient of the weight");
    EXPECT_EQ(layer.bias.grad().to_vector<float>(), bias.grad().to_vector<float>());
    EXPECT_EQ(layer.fp8_amax.value().to_vector<float>(), amaxes.to_vector<float>());
  }
}

TEST_P(CudaFp8Linear, ACapturedStepReadsTheCurrentScales) {
  const Layer& l = GetParam();
  const Tensor w = whole({l.out, l.in}, 1, 0x1p-12), gy = whole({l.rows, l.out}, 20, 0x1p-20);
  struct Step {
    Tensor x, w, gy, amaxes, y{}, gx{}, gw{};
    void make(Activation activation) {
      ops::begin_fp8_step(amaxes);
      const Variable in(x, true), weight(w, true);
      const Variable out = linear(in, weight, {}, {.activation = activation, .fp8 = ops::Fp8Scaling{amaxes, true}});
      backward(out, gy);
      y = out.value(), gx = in.grad(), gw = weight.grad();
    }
  };
  const auto x_of = [&](std::uint32_t step) { return whole({l.rows, l.in}, 10 + step, std::exp2(3.0 * step)); };
  const Device gpu = test_device();
  Step here{x_of(0), w, gy, ops::fp8_amaxes(Device::cpu())};
  Step there{x_of(0).to(gpu), w.to(gpu), gy.to(gpu), ops::fp8_amaxes(gpu)};
  const auto body = [&] { there.make(l.activation); };
  body();
  const MemoryTrace trace = backend_of(gpu).trace(body);
  const std::unique_ptr<CapturedGraph> recording = backend_of(gpu).capture(body, trace);
  here.make(l.activation);
  here.make(l.activation);
  for (std::uint32_t step = 1; step < 4; ++step) {
    here.x = x_of(step);
    there.x.copy_from(here.x.to(gpu));
    here.make(l.activation);
    recording->run();
    expect_products(there.y, here.y, "y");
    expect_products(there.gx, here.gx, "gradient of x");
    expect_products(there.gw, here.gw, "gradient of the weight");
    EXPECT_EQ(there.amaxes.to_vector<float>(), here.amaxes.to_vector<float>()) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, CudaFp8Linear, testing::ValuesIn(kLayers),
                         [](const auto& test) { return test.param.name; });

// ---- products of codes compared with products of the decoded values

struct Product {
  std::int64_t m, n, k;
  ops::Fp8Operand a = ops::Fp8Operand::kX;
  DType out = DType::bf16;
  bool bias = false, keep = false;
  Activation activation = Activation::kNone;
};

/// Compares y, and z if it is stored. Allowed error before rounding: 2^-10 sum |a b|, because an 8-bit Tensor Core
/// keeps fewer bits of a partial sum than f32 before it adds it to the f32 sum.
void expect_products_agree(const Product& p) {
  SCOPED_TRACE(fmt::format("{} x {} x {}, {} bits", p.m, p.n, p.k, 8 * size_of(p.out)));
  const Tensor a = random_values({p.m, p.k}, 1, -3, 3).to(DType::bf16).to(test_device()),
               b = random_values({p.n, p.k}, 2, -0.1, 0.1).to(DType::bf16).to(test_device()),
               bias = random_values({p.n}, 3).to(DType::f32).to(test_device());
  const ops::Fp8Codes x = ops::encode_to_fp8(a, p.a, {}, true, false),
                      w = ops::encode_to_fp8(b, ops::Fp8Operand::kWeight, {}, true, false);
  const Tensor x_values = ops::round_to_fp8(a, p.a, {}), w_values = ops::round_to_fp8(b, ops::Fp8Operand::kWeight, {});
  GemmArgs g{.m = p.m, .n = p.n, .k = p.k, .in = DType::u8, .out = p.out};
  g.a = x.rows.raw();
  g.b = w.rows.raw();
  g.a_row = g.b_col = p.k;
  g.b_row = 1;
  g.c_row = p.n;
  g.a_format = ops::format_of(p.a);
  g.a_scale = x.scale.data<float>();
  g.b_scale = w.scale.data<float>();
  g.bias = p.bias ? bias.raw() : nullptr;
  g.activation = p.activation;
  std::vector<Tensor> results[2];
  for (std::vector<Tensor>& to : results) {
    to = {Tensor::zeros({p.m, p.n}, p.out, test_device()), Tensor::zeros({p.m, p.n}, p.out, test_device())};
    g.c = to[0].mutable_raw();
    g.pre_activation = p.keep ? to[1].mutable_raw() : nullptr;
    kernels(test_device()).gemm(g);
    g.in = DType::bf16;
    g.a = x_values.raw();
    g.b = w_values.raw();
  }
  const std::vector<float> xs = x_values.to_vector<float>(), ws = w_values.to_vector<float>();
  for (int i = 0; i < 2; ++i) {
    const std::vector<float> got = results[0][i].to_vector<float>(), want = results[1][i].to_vector<float>();
    for (std::int64_t row = 0; row < p.m; ++row)
      for (std::int64_t column = 0; column < p.n; ++column) {
        double sum = 0;
        for (std::int64_t k = 0; k < p.k; ++k)
          sum += std::abs(xs[static_cast<std::size_t>(row * p.k + k)] * ws[static_cast<std::size_t>(column * p.k + k)]);
        const auto at = static_cast<std::size_t>(row * p.n + column);
        const double rounding = p.out == DType::bf16 ? 0x1p-7 * std::abs(want[at]) : 0;
        ASSERT_NEAR(got[at], want[at], 1.2 * 0x1p-10 * sum + rounding) << row << ", " << column;
      }
  }
}

const Product kProducts[] = {
    {16, 32, 48},
    {144, 64, 528, ops::Fp8Operand::kGradient},
    {48, 16, 32, ops::Fp8Operand::kGradient, DType::f32},
    {32, 48, 16, ops::Fp8Operand::kX, DType::f32, true, true, Activation::kGeluTanh},
    {32, 48, 16, ops::Fp8Operand::kX, DType::bf16, true},
    {272, 48, 64, ops::Fp8Operand::kX, DType::bf16, true, true, Activation::kGelu},
};

TEST(CudaFp8Products, EqualProductsOfTheDecodedValues) {
  if (!gpus_have_codes()) GTEST_SKIP() << "this GPU has no 8-bit products";
  for (const Product& product : kProducts) expect_products_agree(product);
}

// Runs on a GPU only.
TEST(CudaFp8OnAGpu, TheLibraryMultipliesCodes) {
  if (!on_a_gpu()) GTEST_SKIP() << "no GPU is there: the emulated device has no cuBLASLt";
  if (!gpus_have_codes()) GTEST_SKIP() << "this GPU has no 8-bit products";
  const std::string told = gpus::notes();
  for (const Product& product : kProducts) expect_products_agree(product);
  for (const auto a : {ops::Fp8Operand::kX, ops::Fp8Operand::kGradient})
    for (const DType out : {DType::bf16, DType::f32}) expect_products_agree({256, 384, 4096, a, out});
  EXPECT_EQ(gpus::notes().substr(told.size()).find("8-bit product"), std::string::npos) << gpus::notes();
  const std::string plans = gpus::plans();
  for (const char* what : {"gemm in=e4m3 out=bf16 m=256 n=384 k=4096", "gemm in=e4m3 out=f32 m=256 n=384 k=4096",
                           "gemm in=e5m2 out=bf16 m=256 n=384 k=4096", "gemm in=e5m2 out=f32 m=256 n=384 k=4096"})
    EXPECT_NE(plans.find(what), plans.npos) << what << " in " << plans;
}

}  // namespace
}  // namespace binade
