#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/table.h"
#include "binade/core/tensor.h"
#include "binade/cuda/gpu.h"
#include "tests/cuda/device.h"

// The optimizer kernels of the device, compared with the CPU's. The emulated device rounds each product like the CPU's
// level `generic`, so the bits must agree. A GPU fuses multiplications and additions, so its results may differ by
// a few roundings.
namespace binade {
namespace {

bool same_bits_expected() { return std::string_view(cuda::facts()->name) == "emulated device"; }

/// Selects the CPU level `generic`, which has no fused multiply-add, during its lifetime.
struct Generic {
  std::string_view before = cpu::level().isa;
  Generic() { cpu::select_isa("generic"); }
  ~Generic() { cpu::select_isa(before); }
};

Tensor random(std::int64_t n, DType dtype, std::uint64_t tag, double low = -1, double high = 1) {
  const RandomStream stream{.seed = 3, .purpose = RngPurpose::kData, .step = tag};
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = low + (high - low) * stream.uniform(i);
  return Tensor::from(values, Shape{n}).to(dtype);
}

/// Expects that `got` equals the CPU's result: in every bit, or on a GPU within two roundings, because Adam fuses two
/// products.
void expect_same(const Tensor& got, const Tensor& want, const std::string& what) {
  const std::vector<double> a = got.to_vector<double>(), b = want.to_vector<double>();
  ASSERT_EQ(a.size(), b.size());
  const double step = same_bits_expected() ? 0 : std::ldexp(2.0, -range_of(got.dtype()).mantissa_bits);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    ASSERT_LE(std::abs(a[i] - b[i]), step * std::max(std::abs(b[i]), 0.125)) << what << ", element " << i;
  }
}

/// Sizes of the parameters; the second one does not begin at a multiple of 16 bytes, and the third gets no gradient.
constexpr std::int64_t kSizes[] = {kFlatBlock + 37, 2 * kFlatBlock + 5, 11};
constexpr std::int64_t kOffsets[] = {0, kFlatBlock + 37, 3 * kFlatBlock + 42}, kTotal = 3 * kFlatBlock + 53;

std::vector<FlatBlock> blocks() {
  std::vector<FlatBlock> all;
  for (std::int32_t s = 0; s < 3; ++s)
    for (std::int64_t begin = 0; begin < kSizes[s]; begin += kFlatBlock)
      all.push_back({s, static_cast<std::int32_t>(std::min(kFlatBlock, kSizes[s] - begin)), begin});
  return all;
}

struct Kind {
  const char* name;
  UpdateRule rule;
  DType value = DType::f32, moment = DType::f32;
  bool low = false, stochastic = false;
  bool root_of_first = false;  // the first moment is a mean of squares
};

/// Weights, moments and copies after one update.
struct After {
  Tensor value, low, moment1, moment2, moment3;
  std::vector<BlockExtremes> extremes;
};

After update(const Kind& kind, Device device, bool write) {
  Tensor gradient = random(kTotal, DType::f32, 1).to(device);
  After a{.value = random(kTotal, kind.value, 2).to(device),
          .low = random(kTotal, DType::bf16, 3).to(device),
          .moment1 = random(kTotal, kind.moment, 4, kind.root_of_first ? 0 : -1).to(device),
          .moment2 = random(kTotal, kind.moment, 5, 0, 1).to(device),
          .moment3 = random(kTotal, kind.moment, 6).to(device),
          .extremes = {}};
  const auto at = [](Tensor& t, std::int64_t i) {
    return static_cast<std::byte*>(t.mutable_raw()) + static_cast<std::size_t>(i) * size_of(t.dtype());
  };
  std::vector<UpdateSlice> slices(3);
  for (std::size_t s = 0; s < 3; ++s) {
    UpdateSlice& slice = slices[s];
    if (s < 2) slice.gradient = gradient.data<float>() + kOffsets[s];
    slice.value = at(a.value, kOffsets[s]);
    slice.value_dtype = kind.value;
    if (kind.low) slice.low = at(a.low, kOffsets[s]);
    slice.low_dtype = DType::bf16;
    const int moments = std::visit([](auto rule) { return rule.kMoments; }, kind.rule);
    if (moments > 0) slice.moment1 = at(a.moment1, kOffsets[s]);
    if (moments > 1) slice.moment2 = at(a.moment2, kOffsets[s]);
    if (moments > 2) slice.moment3 = at(a.moment3, kOffsets[s]);
    slice.moment_dtype = kind.moment;
    slice.gradient_factor = 0.25f;
    slice.clip_value = s == 0 ? 0.2f : 0.0f;
    slice.numbers = {.step_size = 0.01f,
                     .keep = 0.999f,
                     .l2 = 0.02f,
                     .beta1 = 0.9f,
                     .one_minus_beta1 = 0.1f,
                     .beta2 = 0.95f,
                     .one_minus_beta2 = 0.05f,
                     .root_factor = 1.3f,
                     .eps = 1e-6f,
                     .gradient_share = s == 1 ? 1.0f : 0.0f,
                     .moment_share = s == 1 ? 0.9f : 1.0f,
                     .direction = s == 1 ? -1.0f : 1.0f,
                     .first = s == 1,
                     .initial = 0.5f,
                     .low = 0.01f,
                     .high = 0.8f};
  }
  const std::vector<FlatBlock> all = blocks();
  a.extremes.resize(all.size());
  UpdateArguments arguments{.rule = kind.rule, .blocks = all, .slices = slices, .extremes = a.extremes};
  arguments.write = write;
  arguments.stochastic = kind.stochastic;
  arguments.rounding = {7, RngPurpose::kRounding, 4, 0, 0};
  kernels(device).update(arguments);
  return a;
}

void expect_same_words(std::uint32_t got, std::uint32_t want, const std::string& what) {
  if (same_bits_expected())
    EXPECT_EQ(got, want) << what;
  else
    EXPECT_NEAR(std::bit_cast<float>(got), std::bit_cast<float>(want), 1e-6) << what;
}

TEST(GpuOptimizer, UpdatesEqualTheCpus) {
  const Generic generic;
  for (const Kind& kind :
       {Kind{.name = "sgd", .rule = rules::Sgd{}},
        Kind{.name = "momentum", .rule = rules::Momentum{}, .low = true},
        Kind{.name = "momentum in bf16", .rule = rules::Momentum{}, .moment = DType::bf16},
        Kind{.name = "adam", .rule = rules::Adam{}, .low = true},
        Kind{.name = "adam, halves", .rule = rules::Adam{}, .value = DType::bf16, .moment = DType::bf16},
        Kind{.name = "adam, stochastic bf16", .rule = rules::Adam{}, .value = DType::bf16, .stochastic = true},
        Kind{.name = "lion, stochastic f16", .rule = rules::Lion{}, .value = DType::f16, .stochastic = true},
        Kind{.name = "amsgrad", .rule = rules::AmsGrad{}, .low = true},
        Kind{.name = "amsgrad in bf16", .rule = rules::AmsGrad{}, .moment = DType::bf16},
        Kind{.name = "nadam", .rule = rules::NAdam{}},
        Kind{.name = "adamax", .rule = rules::Adamax{}},
        Kind{.name = "schedule-free", .rule = rules::ScheduleFree{}, .low = true},
        Kind{.name = "rmsprop", .rule = rules::Rmsprop<false, false>{}, .root_of_first = true},
        Kind{.name = "rmsprop with momentum", .rule = rules::Rmsprop<false, true>{}, .root_of_first = true},
        Kind{.name = "rmsprop, centered", .rule = rules::Rmsprop<true, false>{}, .root_of_first = true},
        Kind{.name = "rmsprop, both", .rule = rules::Rmsprop<true, true>{}, .low = true, .root_of_first = true},
        Kind{.name = "adagrad", .rule = rules::Adagrad{}, .root_of_first = true},
        Kind{.name = "adadelta", .rule = rules::Adadelta{}, .root_of_first = true},
        Kind{.name = "rprop", .rule = rules::Rprop{}},
        Kind{.name = "asgd", .rule = rules::Asgd{}}})
    for (const bool write : {false, true}) {
      const std::string what = std::string(kind.name) + (write ? "" : ", dry");
      const After got = update(kind, test_device(), write), want = update(kind, Device::cpu(), write);
      expect_same(got.value, want.value, what + ": value");
      expect_same(got.low, want.low, what + ": low");
      expect_same(got.moment1, want.moment1, what + ": moment1");
      expect_same(got.moment2, want.moment2, what + ": moment2");
      expect_same(got.moment3, want.moment3, what + ": moment3");
      for (std::size_t b = 0; b < want.extremes.size(); ++b) {
        expect_same_words(got.extremes[b].value, want.extremes[b].value, what + ": largest value");
        expect_same_words(got.extremes[b].moment1, want.extremes[b].moment1, what + ": largest moment1");
        expect_same_words(got.extremes[b].moment2, want.extremes[b].moment2, what + ": largest moment2");
      }
    }
}

std::vector<BlockScan> scan(const Tensor& any, Device device) {
  const Tensor values = any.to(device);
  const std::vector<const float*> slices = {values.data<float>(), values.data<float>() + kOffsets[1], nullptr};
  const std::vector<FlatBlock> all = blocks();
  std::vector<BlockScan> results(all.size());
  kernels(device).scan({all, slices, results});
  return results;
}

TEST(GpuOptimizer, ScansEqualTheCpus) {
  for (const double scale : {1.0, 1e-42, 1e-25, 1e38}) {
    const Tensor values = random(kTotal, DType::f32, 8, -scale, scale);
    const std::vector<BlockScan> got = scan(values, test_device()), want = scan(values, Device::cpu());
    for (std::size_t b = 0; b < want.size(); ++b) {
      EXPECT_EQ(got[b].largest, want[b].largest);
      EXPECT_NEAR(got[b].sum_squares, want[b].sum_squares, 1e-5 * want[b].sum_squares);
    }
    EXPECT_EQ(got.back().largest, 0u) << "a slice that is skipped";
  }
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    Tensor values = random(kTotal, DType::f32, 9);
    values.mutable_data<float>()[kFlatBlock + 36] = bad;  // the last element of the first slice
    const std::vector<BlockScan> got = scan(values, test_device());
    EXPECT_GE(got[1].largest, 0x7f800000u);
    EXPECT_EQ(got[1].sum_squares, 0);
    EXPECT_LT(got[0].largest, 0x7f800000u);
  }
}

TEST(GpuOptimizer, AveragesEqualTheCpus) {
  const Generic generic;
  const std::vector<FlatBlock> all = blocks();
  const auto run = [&](Device device) {
    Tensor average = random(kTotal, DType::f32, 1).to(device), values = random(kTotal, DType::f16, 2).to(device);
    std::vector<float*> averages;
    std::vector<const void*> from;
    for (const std::int64_t offset : kOffsets) {
      averages.push_back(average.mutable_data<float>() + offset);
      from.push_back(values.data<float16>() + offset);
    }
    const std::vector<DType> dtypes(3, DType::f16);
    kernels(device).average({all, averages, from, dtypes, 0.125f});
    return average;
  };
  expect_same(run(test_device()), run(Device::cpu()), "average");
}

TEST(GpuOptimizer, LimitsEqualTheCpus) {
  const Generic generic;
  const std::vector<FlatBlock> all = blocks();
  const auto limit = [&](Device device) {
    Tensor values = random(kTotal, DType::f32, 1).to(device);
    const std::vector<float*> slices = {values.mutable_data<float>(), nullptr,
                                        values.mutable_data<float>() + kOffsets[2]};
    kernels(device).limit({all, slices, 0.75f, 0.5f});
    return values;
  };
  expect_same(limit(test_device()), limit(Device::cpu()), "limit");
  for (const std::int64_t size : {1, 9, 1000})
    for (const double share : {0.01, 0.9}) {
      const auto limit_units = [&](Device device) {
        const Tensor weights = random(4 * size, DType::f32, 1).to(device);
        Tensor gradients = random(4 * size, DType::f32, 2).to(device);
        kernels(device).limit_units(
            {4, size, weights.data<float>(), gradients.mutable_data<float>(), share, 1e-3, 0.5});
        return gradients;
      };
      const std::vector<double> got = limit_units(test_device()).to_vector<double>(),
                                want = limit_units(Device::cpu()).to_vector<double>();
      for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6 * std::abs(want[i]));
    }
}

}  // namespace
}  // namespace binade
