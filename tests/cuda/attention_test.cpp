#include "binade/core/ops/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "binade/core/kernels/table.h"
#include "binade/core/observation.h"
#include "binade/core/random.h"
#include "tests/cuda/device.h"

// Attention beyond the conformance suite: several tiles, masks of every layout, dropout, and the propagation of NaN and
// infinities. The CPU kernels, which have their own tests, are the reference.
namespace binade {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

enum class Mask { kNone, kKeys, kFull, kHead, kQuery };

struct Case {
  const char* name;
  std::int64_t batch, queries, keys, heads, key_heads, depth;
  bool causal = false;
  float dropout = 0;
  Mask mask = Mask::kNone;
};

std::vector<double> random(std::int64_t count, std::uint64_t tag) {
  const RandomStream stream{.seed = 13, .purpose = RngPurpose::kData, .step = tag};
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 4 * stream.uniform(i) - 2;
  return values;
}

/// The inputs of one call, in double. A test may replace some by NaN or infinity.
struct Problem {
  explicit Problem(const Case& shape) : c(shape) {
    q = random(c.batch * c.queries * c.heads * c.depth, 1);
    k = random(c.batch * c.keys * c.key_heads * c.depth, 2);
    v = random(c.batch * c.keys * c.key_heads * c.depth, 3);
    gy = random(c.batch * c.queries * c.heads * c.depth, 4);
    if (c.mask == Mask::kNone) return;
    mask_shape = {c.batch, c.heads, c.queries, c.keys};
    if (c.mask != Mask::kFull && c.mask != Mask::kHead) mask_shape[1] = 1;
    if (c.mask == Mask::kKeys || c.mask == Mask::kHead) mask_shape[2] = 1;
    if (c.mask == Mask::kHead || c.mask == Mask::kQuery) mask_shape[0] = 1;
    mask = random(mask_shape[0] * mask_shape[1] * mask_shape[2] * mask_shape[3], 5);
    // Every seventh entry hides its key, and the last row hides all keys.
    for (std::size_t i = 0; i < mask.size(); ++i)
      if (i % 7 == 3 || i + static_cast<std::size_t>(c.keys) >= mask.size()) mask[i] = -kInfinity;
  }

  /// Returns y, lse, gq, gk and gv, computed on `device` and converted to double on the host.
  std::vector<std::vector<double>> results(DType dtype, DType computed, const Device& device) const {
    const Shape queries{c.batch, c.queries, c.heads, c.depth}, keys{c.batch, c.keys, c.key_heads, c.depth};
    const auto there = [&](const std::vector<double>& values, const Shape& shape) {
      return Tensor::from(values, shape).to(dtype).to(computed).to(device);
    };
    const Tensor tq = there(q, queries), tk = there(k, keys), tv = there(v, keys), tgy = there(gy, queries);
    const Tensor added =
        mask.empty() ? Tensor()
                     : Tensor::from(mask, Shape(mask_shape)).to(DType::f32).to(accumulate_dtype(computed)).to(device);
    Tensor y = Tensor::full(queries, kNan, computed, device), gq = y.clone();
    // The gradients of keys and values are adjacent, as for a projection of both.
    const Tensor pairs = Tensor::full(keys.with_dim(-1, 2 * c.depth), kNan, computed, device);
    Tensor gk = pairs.channel_slice(0, c.depth), gv = pairs.channel_slice(c.depth, c.depth);
    Tensor lse = Tensor::full({c.batch, c.heads, c.queries}, kNan, accumulate_dtype(computed), device);
    AttentionArgs a;
    a.batch = c.batch;
    a.queries = c.queries;
    a.keys = c.keys;
    a.heads = c.heads;
    a.key_heads = c.key_heads;
    a.depth = c.depth;
    a.scale = 1 / std::sqrt(static_cast<double>(c.depth));
    a.causal = c.causal;
    a.dtype = computed;
    a.q = {tq.raw(), c.heads * c.depth, c.depth};
    a.k = {tk.raw(), c.key_heads * c.depth, c.depth};
    a.v = {tv.raw(), c.key_heads * c.depth, c.depth};
    a.dropout = c.dropout;
    a.rng = {.seed = 5, .purpose = RngPurpose::kDropout, .step = 3, .index = 2};
    if (added.defined()) {
      a.mask = added.raw();
      a.mask_query = mask_shape[2] > 1 ? c.keys : 0;
      a.mask_head = mask_shape[1] > 1 ? mask_shape[2] * c.keys : 0;
      a.mask_batch = mask_shape[0] > 1 ? mask_shape[1] * mask_shape[2] * c.keys : 0;
    }
    const KernelTable& table = kernels(device);
    table.attention_forward(
        {.args = a, .y = y.mutable_raw(), .y_token = c.heads * c.depth, .y_head = c.depth, .lse = lse.mutable_raw()});
    table.attention_backward({.args = a,
                              .y = {y.raw(), c.heads * c.depth, c.depth},
                              .gy = {tgy.raw(), c.heads * c.depth, c.depth},
                              .lse = lse.raw(),
                              .gq = {gq.mutable_raw(), gq.pitch() * c.heads, gq.pitch()},
                              .gk = {gk.mutable_raw(), gk.pitch() * c.key_heads, gk.pitch()},
                              .gv = {gv.mutable_raw(), gv.pitch() * c.key_heads, gv.pitch()}});
    std::vector<std::vector<double>> all;
    for (const Tensor& t : {y, lse, gq, gk, gv}) all.push_back(t.to(Device::cpu()).to_vector<double>());
    return all;
  }

  Case c;
  std::vector<double> q, k, v, gy, mask;
  std::vector<std::int64_t> mask_shape;
};

constexpr const char* kNames[] = {"y", "lse", "gq", "gk", "gv"};

/// Expects NaN and infinities at the same positions, and numbers with an error of at most `tolerance` times the
/// largest.
void expect_close(const std::vector<std::vector<double>>& got, const std::vector<std::vector<double>>& want,
                  double tolerance, const std::string& what) {
  for (std::size_t r = 0; r < want.size(); ++r) {
    ASSERT_EQ(got[r].size(), want[r].size());
    double scale = 1;
    for (const double v : want[r])
      if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
    for (std::size_t i = 0; i < want[r].size(); ++i) {
      const double x = got[r][i], exact = want[r][i];
      ASSERT_EQ(std::isnan(x), std::isnan(exact))
          << what << ", " << kNames[r] << " at " << i << ": " << x << ", " << exact;
      if (std::isinf(exact) || std::isinf(x)) {
        ASSERT_EQ(x, exact) << what << ", " << kNames[r] << " at " << i;
      } else if (!std::isnan(exact)) {
        ASSERT_NEAR(x, exact, tolerance * scale) << what << ", " << kNames[r] << " at " << i;
      }
    }
  }
}

double tolerance_of(DType dtype) {
  return dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 4e-3 : 3e-2;
}

class CudaAttention : public testing::TestWithParam<Case> {};

TEST_P(CudaAttention, AgreesWithTheCpuInDouble) {
  const Problem problem(GetParam());
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    const auto got = problem.results(dtype, dtype, test_device());
    expect_close(got, problem.results(dtype, DType::f64, Device::cpu()), tolerance_of(dtype),
                 std::string(name_of(dtype)));
    const auto again = problem.results(dtype, dtype, test_device());
    for (std::size_t r = 0; r < got.size(); ++r)
      for (std::size_t i = 0; i < got[r].size(); ++i)
        ASSERT_TRUE(got[r][i] == again[r][i] || std::isnan(got[r][i])) << "other bits on another day";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CudaAttention,
    testing::Values(Case{"one", 1, 1, 1, 1, 1, 1}, Case{"tiles", 1, 130, 66, 1, 1, 33},
                    Case{"causal_tiles", 1, 130, 130, 2, 1, 64, true}, Case{"cached", 1, 3, 140, 2, 2, 16, true},
                    Case{"sees_nothing_first", 1, 80, 20, 1, 1, 8, true}, Case{"deep", 1, 20, 70, 1, 1, 128},
                    Case{"grouped_causal", 2, 70, 70, 4, 2, 24, true}, Case{"grouped_cached", 2, 5, 90, 6, 1, 40, true},
                    Case{"deeper", 1, 9, 10, 1, 1, 200, true}, Case{"no_keys", 1, 4, 0, 1, 1, 4},
                    Case{"no_queries", 1, 0, 4, 1, 1, 4}, Case{"mask_keys", 3, 9, 20, 2, 2, 17, false, 0, Mask::kKeys},
                    Case{"mask_full", 2, 20, 70, 2, 1, 24, false, 0, Mask::kFull},
                    Case{"mask_head", 2, 20, 20, 2, 2, 24, true, 0, Mask::kHead},
                    Case{"mask_query", 2, 70, 33, 2, 2, 16, false, 0, Mask::kQuery},
                    Case{"dropout", 2, 9, 11, 2, 1, 8, false, 0.3f},
                    Case{"all", 2, 70, 71, 2, 1, 32, true, 0.25f, Mask::kFull}),
    [](const auto& test) { return test.param.name; });

/// Replaces one value at a time by NaN or infinity. Results must be NaN or infinite exactly where the CPU's are.
TEST(CudaAttentionNonFinite, NanAndInfinitiesPropagateAsOnTheCpu) {
  for (const Case& c :
       {Case{"causal", 1, 70, 70, 1, 1, 4, true}, Case{"masked", 1, 6, 9, 1, 1, 4, false, 0, Mask::kFull}})
    for (const double bad : {kNan, kInfinity, -kInfinity})
      for (const int input : {0, 1, 2, 3}) {
        Problem problem(c);
        std::vector<double>& values = input == 0   ? problem.q
                                      : input == 1 ? problem.k
                                      : input == 2 ? problem.v
                                                   : problem.gy;
        values[values.size() / 2 + 1] = bad;
        for (const DType dtype : {DType::f32, DType::bf16})
          expect_close(problem.results(dtype, dtype, test_device()), problem.results(dtype, dtype, Device::cpu()),
                       tolerance_of(dtype), fmt::format("{}, {} in input {}, {}", c.name, bad, input, name_of(dtype)));
      }
}

TEST(CudaAttentionNonFinite, LogitsOfMinusInfinityWithoutAMaskGiveNan) {
  for (const Mask mask : {Mask::kNone, Mask::kKeys}) {
    Problem problem({"minus", 2, 2, 3, 1, 1, 4, false, 0, mask});
    problem.q[0] = problem.q[8] = kInfinity;
    for (std::size_t s = 0; s < 6; ++s) problem.k[s * 4] = -1;
    expect_close(problem.results(DType::f32, DType::f32, test_device()),
                 problem.results(DType::f32, DType::f32, Device::cpu()), 1e-5, "minus infinity");
  }
}

/// Observed maxima of results and gradients, also if a library computed them (on the emulated device with
/// BINADE_SIMT_LIBRARY=1), for adjacent heads and for results with gaps between the heads.
TEST(CudaAttentionResults, AreObserved) {
  for (const std::int64_t gap : {0, 8})
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
      constexpr std::int64_t kTokens = 5, kHeads = 2, kDepth = 16;
      const Shape shape{1, kTokens, kHeads, kDepth};
      const Tensor q = Tensor::full(shape, 0.5, dtype, test_device()),
                   gy = Tensor::full(shape, 3, dtype, test_device());
      const Tensor v = Tensor::full(shape, 24, dtype, test_device());
      Tensor y = Tensor::full({1, kTokens, kHeads, kDepth + gap}, 1000, dtype, test_device());
      Tensor gv = Tensor::full(shape, kNan, dtype, test_device());
      Tensor lse = Tensor::full({1, kHeads, kTokens}, 0, DType::f32, test_device());
      AttentionArgs a;
      a.batch = 1;
      a.queries = a.keys = kTokens;
      a.heads = a.key_heads = kHeads;
      a.depth = kDepth;
      a.dtype = dtype;
      a.q = a.k = {q.raw(), kHeads * kDepth, kDepth};
      a.v = {v.raw(), kHeads * kDepth, kDepth};
      const AttentionArgs::Tokens results{y.raw(), kHeads * (kDepth + gap), kDepth + gap};
      const KernelTable& table = kernels(test_device());
      const auto largest = [dtype](const Observation& seen) {
        return std::bit_cast<float>(is_half(dtype) ? seen.low : seen.wide);
      };
      ObservationScope scope;
      table.attention_forward({.args = a,
                               .y = y.mutable_raw(),
                               .y_token = results.token,
                               .y_head = results.head,
                               .lse = lse.mutable_raw()});
      EXPECT_NEAR(largest(scope.take().synchronized()), 24, 0.2) << name_of(dtype) << ", gap " << gap;
      table.attention_backward({.args = a,
                                .y = results,
                                .gy = {gy.raw(), kHeads * kDepth, kDepth},
                                .lse = lse.raw(),
                                .gv = gv.mutable_raw()});
      EXPECT_NEAR(largest(scope.take().synchronized()), 3, 0.05) << name_of(dtype) << ", gap " << gap;
      const std::vector<double> left = y.to(Device::cpu()).to_vector<double>();
      for (std::size_t i = 0; i < left.size(); ++i)
        EXPECT_NEAR(left[i], static_cast<std::int64_t>(i) % (kDepth + gap) < kDepth ? 24 : 1000, 0.2) << i;
    }
}

TEST(CudaAttentionMask, IsConvertedToAddedNumbers) {
  const Tensor there = Tensor::from(std::vector<double>{1, 0, 0, 1, 1, 0}, {2, 3});
  for (const DType dtype : {DType::boolean, DType::u8, DType::bf16, DType::f64}) {
    const Tensor mask = there.to(dtype).to(test_device());
    const double hidden = is_floating(dtype) ? 0 : -kInfinity, seen = is_floating(dtype) ? 1 : 0;
    for (const DType logits : {DType::f32, DType::f64}) {
      Tensor added = Tensor::empty({2, 2}, logits, test_device());
      kernels(test_device())
          .additive_mask({{const_cast<void*>(mask.raw()), dtype, 3}, {added.mutable_raw(), logits, 2}, 2, 2});
      EXPECT_EQ(added.to(Device::cpu()).to_vector<double>(), (std::vector<double>{seen, hidden, seen, seen}));
    }
  }
}

/// Reads the logits of a query for all keys on a device, as telemetry does.
TEST(CudaAttentionLogits, AreReadOnTheHost) {
  const Shape shape{1, 3, 2, 4};
  std::vector<Tensor> host, there;
  for (const std::uint64_t tag : {1, 2, 3}) host.push_back(Tensor::from(random(24, tag), shape).to(DType::f32));
  host.push_back(Tensor::from(std::vector<double>{1, 0, 1}, {1, 3}).to(DType::boolean));
  for (const Tensor& t : host) there.push_back(t.to(test_device()));
  EXPECT_EQ(ops::attention_logits(there, {.causal = true}, 6), ops::attention_logits(host, {.causal = true}, 6));
}

}  // namespace
}  // namespace binade
