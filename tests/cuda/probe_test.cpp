#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "binade/amp/watch/attention_entropy.h"
#include "binade/amp/watch/singularity.h"
#include "binade/amp/watch/telemetry.h"
#include "binade/autograd/functions/attention.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/losses.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/core/error.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/step_context.h"
#include "binade/cuda/gpu.h"
#include "tests/cuda/agree.h"
#include "tests/cuda/device.h"

// Probes of telemetry on the device, compared with those of the host for the same tensors.
namespace binade::amp {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

/// Returns random values, among them the values `odd`.
Tensor values(const Shape& shape, std::uint64_t tag, DType dtype, const std::vector<double>& odd = {}, double low = -1,
              double high = 1) {
  Tensor x = random_values(shape, tag, low, high);
  for (std::size_t i = 0; i < odd.size() && x.numel() > 0; ++i)
    x.mutable_data<double>()[static_cast<std::int64_t>(7 * i * i + tag) % x.numel()] = odd[i];
  return x.to(dtype);
}

/// Returns x as a channel slice after `before` other channels.
Tensor slice_of_more(const Tensor& x, std::int64_t before) {
  if (before == 0) return x;
  std::vector<std::int64_t> extents(x.shape().dims().begin(), x.shape().dims().end());
  const std::int64_t cols = extents.back();
  extents.back() += before + 1;
  Tensor all = Tensor::zeros(Shape(std::span<const std::int64_t>(extents)), x.dtype(), x.device());
  Tensor part = all.channel_slice(before, cols);
  part.copy_from(x);
  return part;
}

/// Returns the telemetry records of `run` with these inputs on a device. Expects that the host does not wait.
std::vector<Telemetry::OpRecord> seen(const std::vector<Tensor>& inputs, Device device,
                                      const std::function<void(const std::vector<Variable>&)>& run) {
  std::vector<Variable> there;
  for (const Tensor& x : inputs) there.emplace_back(x.defined() ? x.to(device) : x);
  Telemetry telemetry;
  telemetry.begin({.zeros = true, .limits = true});
  const std::uint64_t before = cuda::waits();
  {
    const ObserverScope watched(telemetry);
    step_context().next = {};
    run(there);
  }
  EXPECT_EQ(cuda::waits(), before);
  telemetry.synchronize();
  const auto records = telemetry.records(Direction::kForward);
  return {records.begin(), records.end()};
}

void expect_same(const std::vector<Tensor>& inputs, const std::function<void(const std::vector<Variable>&)>& run,
                 const std::string& what) {
  SCOPED_TRACE(what);
  const std::vector<Telemetry::OpRecord> host = seen(inputs, Device::cpu(), run),
                                         there = seen(inputs, test_device(), run);
  ASSERT_EQ(host.size(), there.size());
  for (std::size_t i = 0; i < host.size(); ++i) {
    ASSERT_EQ(host[i].singularity.has_value(), there[i].singularity.has_value());
    if (host[i].singularity) {
      EXPECT_EQ(host[i].singularity->binades, there[i].singularity->binades);
      EXPECT_EQ(host[i].singularity->dtype, there[i].singularity->dtype);
    }
    ASSERT_EQ(host[i].entropy.has_value(), there[i].entropy.has_value());
    if (host[i].entropy) {
      EXPECT_NEAR(*host[i].entropy, *there[i].entropy, 1e-11);
    }
  }
}

const std::vector<DType> kFloating = {DType::f32, DType::f16, DType::bf16, DType::f64};

TEST(GpuProbes, MeasureTheDistanceToASingularityAsTheHostDoes) {
  const std::vector<std::vector<double>> odd = {
      {}, {kNan, kNan}, {kInfinity, kNan}, {-kInfinity}, {0}, {-0.0, kNan}, {kNan, 0x1p-140, -0x1p-10}, {1}, {1.5}};
  for (const DType dtype : kFloating)
    for (const std::int64_t count : {1, 2, 7, 8, 31, 256, 257, 2048, 5000})
      for (std::size_t o = 0; o < odd.size(); ++o) {
        const Tensor x = values({count}, static_cast<std::uint64_t>(count) + o, dtype, odd[o], 0.01, 0.99);
        const Tensor y = values({count}, 5, dtype, odd[o]);
        const std::string what = fmt::format("{} {} {}", name_of(dtype), count, o);
        expect_same(
            {x, y}, [](const auto& v) { (void)(v[0] / v[1]); }, what + " division");
        expect_same(
            {x, y}, [](const auto& v) { (void)log(v[0]), (void)sqrt(v[1]); }, what + " log and root");
        if (dtype != DType::f32) continue;
        const Tensor targets = Tensor::zeros({count});
        expect_same(
            {x, targets}, [](const auto& v) { (void)bce(v[0], v[1]); }, what + " loss");
      }
}

TEST(GpuProbes, OfOnlyNanReportNoDistance) {
  const Tensor x = Tensor::full({300}, kNan);
  expect_same(
      {x, x}, [](const auto& v) { (void)(v[0] / v[1]); }, "NaN");
  expect_same(
      {x}, [](const auto& v) { (void)(v[0] / 0.0); }, "divided by 0");
}

TEST(GpuProbes, ReadChannelSlices) {
  for (const DType dtype : kFloating)
    for (const std::int64_t before : {0, 1, 8}) {
      const Tensor x = slice_of_more(values({37, 24}, 3, dtype, {}, 0.1, 2), before).to(test_device());
      const auto nearest = [&](const Tensor& t, ProbeBuffer& numbers) {
        const ProbeBuffer::Range range = numbers.allocate(1, t.device());
        kernels(t.device()).singularity_probe({probed_values(t), 0, 0, 3, range.data});
        return static_cast<std::size_t>(range.first);
      };
      ProbeBuffer numbers;
      const std::size_t sliced = nearest(slice_of_more(x, before), numbers), whole = nearest(x.clone(), numbers);
      const std::vector<double> found = numbers.copy_to_host();
      EXPECT_EQ(found[sliced], found[whole]);
      EXPECT_LT(found[whole], 0.2);
    }
}

std::int64_t zeros_on_the_host(const Tensor& x) {
  const std::vector<double> all = x.to_vector<double>();
  const auto count = static_cast<std::int64_t>(all.size()), stride = std::max<std::int64_t>(32, count / 128);
  std::int64_t zeros = 0;
  for (std::int64_t run = 0; run < 128 && run * stride < count; ++run)
    for (std::int64_t i = run * stride; i < std::min(run * stride + 32, count); ++i)
      zeros += all[static_cast<std::size_t>(i)] == 0;
  return zeros;
}

TEST(GpuProbes, CountZerosAsTheHostDoes) {
  ProbeBuffer numbers;
  std::vector<std::int64_t> want;
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const std::int64_t count : {1, 31, 32, 33, 100, 1000, 4095, 4096, 4097, 5000, 8193, 100000})
      for (const std::int64_t cols : {1, 7, 64}) {
        const std::int64_t rows = (count + cols - 1) / cols;
        Tensor x = random_values({rows, cols}, static_cast<std::uint64_t>(count));
        for (std::int64_t i = 0; i < x.numel(); ++i) {
          double& value = x.mutable_data<double>()[i];
          if (std::abs(value) < 0.4) value = value < 0 ? -0.0 : 0.0;
          if (std::abs(value) > 0.99) value = kNan;
        }
        const Tensor half = x.to(dtype);
        want.push_back(zeros_on_the_host(half));
        const Tensor there = slice_of_more(half.to(test_device()), count % 3);
        kernels(there.device()).zero_probe({probed_values(there), numbers.allocate(1, there.device()).data});
      }
  const std::vector<double> found = numbers.copy_to_host();
  ASSERT_EQ(found.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(found[i], static_cast<double>(want[i])) << i;
}

TEST(GpuProbes, OfAnAttentionMeasureTheEntropyAsTheHostDoes) {
  struct Case {
    Shape q, k;
    ops::Attention::Params params;
    Shape mask{};
    std::vector<double> odd{};
  };
  const std::vector<Case> cases = {
      {{2, 20, 4, 8}, {2, 20, 4, 8}, {}},
      {{2, 20, 4, 8}, {2, 20, 2, 8}, {.causal = true}},
      {{1, 3, 2, 40}, {1, 70, 1, 40}, {.causal = true}},
      {{1, 30, 2, 5}, {1, 9, 2, 5}, {.causal = true}},
      {{2, 20, 24}, {2, 33, 12}, {.heads = 4, .key_heads = 2}},
      {{2, 20, 2, 8}, {2, 20, 2, 8}, {}, {2, 20}},
      {{2, 20, 2, 8}, {2, 20, 2, 8}, {.causal = true, .scale = 3}, {2, 1, 20, 20}},
      {{1, 2, 1, 8}, {1, 7, 1, 8}, {}},
      {{1, 1, 1, 130}, {1, 600, 1, 130}, {.scale = 2}},
      {{2, 20, 2, 8}, {2, 20, 2, 8}, {}, {}, {kNan, kInfinity}},
      {{1, 16, 1, 8}, {1, 16, 1, 8}, {}, {1, 16}, {kNan}},
  };
  for (std::size_t i = 0; i < cases.size(); ++i)
    for (const DType dtype : kFloating)
      for (const bool numbers : {false, true}) {
        const Case& c = cases[i];
        std::vector<Tensor> in = {values(c.q, 1, dtype, c.odd, -3, 3), values(c.k, 2, dtype, {}, -3, 3),
                                  values(c.k, 3, dtype)};
        if (c.mask.rank() > 1) {
          Tensor mask = random_values(c.mask, 4, 0, 1.4);
          for (std::int64_t m = 0; m < mask.numel(); ++m) {
            double& value = mask.mutable_data<double>()[m];
            value = numbers ? (value < 0.4 ? -kInfinity : value < 0.5 ? -1e4 : value) : std::floor(value + 0.3);
          }
          in.push_back(mask.to(numbers ? DType::f32 : DType::boolean));
        } else if (numbers) {
          continue;
        }
        expect_same(
            in, [&](const auto& v) { (void)attention(v[0], v[1], v[2], c.params, v.size() > 3 ? v[3] : Variable()); },
            fmt::format("case {} {} {}", i, name_of(dtype), numbers));
      }
}

TEST(GpuProbes, OfASoftmaxMeasureTheEntropyAsTheHostDoes) {
  const ModulePathScope inside("block.attention");
  for (const DType dtype : kFloating)
    for (const std::int64_t rows : {1, 5, 16, 17, 100})
      for (const std::int64_t cols : {1, 7, 8, 33, 300, 1100})
        for (const std::vector<double>& odd :
             {std::vector<double>{}, {-kInfinity, -kInfinity, -kInfinity}, {kNan}, {kInfinity}, {-65504, -1e4}})
          expect_same(
              {values({rows, cols}, 4, dtype, odd, -6, 6)}, [](const auto& v) { (void)softmax(v[0]); },
              fmt::format("{} {} {}", name_of(dtype), rows, cols));
}

TEST(GpuProbes, EnlargeTheirBufferAndKeepIt) {
  const Tensor x = Tensor::full({1}, 0.5, DType::f32, test_device());
  const auto look = [&](ProbeBuffer& numbers) {
    const ProbeBuffer::Range range = numbers.allocate(1, x.device());
    kernels(x.device()).singularity_probe({probed_values(x), 0.25, -kInfinity, kInfinity, range.data});
    return range;
  };
  ProbeBuffer numbers;
  for (int run = 0; run < 3; ++run) {
    numbers.clear();
    for (int i = 0; i < 3000; ++i) EXPECT_EQ(look(numbers).first, i);
    EXPECT_EQ(numbers.copy_to_host(), std::vector<double>(3000, 0.25));
  }
  ProbeBuffer kept;
  kept.reserve_like(numbers);
  kept.clear();
  const ProbeBuffer::Range first = look(kept);
  kept.clear();
  EXPECT_EQ(look(kept).data, first.data);
  EXPECT_EQ(kept.device_values().size(), 1u);
  EXPECT_EQ(kept.copy_to_host(), std::vector<double>{0.25});
  EXPECT_THROW(kept.allocate(1 << 20, x.device()), DeviceError);
}

}  // namespace
}  // namespace binade::amp
