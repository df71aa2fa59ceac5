#include <gtest/gtest.h>

#include <vector>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/variable.h"
#include "binade/core/random.h"
#include "tests/cuda/device.h"

// Broadcasting by packs and by elements, at the border between both, and at sizes with different index divisions. The
// CPU and the device round sums and products once, so their bits must agree.
namespace binade {
namespace {

struct Operand {
  Shape shape;
  std::int64_t slice = 0;  ///< number of channels before these in a wider tensor
};
struct Sizes {
  const char* name;
  Operand a, b;
};

Tensor make(const Operand& s, DType dtype, std::uint64_t tag, const Device& device) {
  const std::int64_t cols = s.shape.dim(-1);
  const Shape whole = s.shape.with_dim(s.shape.rank() - 1, cols + s.slice);
  const RandomStream stream{.seed = 21, .purpose = RngPurpose::kData, .step = tag};
  std::vector<double> values(static_cast<std::size_t>(whole.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * stream.uniform(i) - 1;
  const Tensor all = Tensor::from(values, whole).to(dtype).to(device);
  return s.slice == 0 ? all : all.channel_slice(s.slice, cols);
}

class GpuBroadcasts : public testing::TestWithParam<Sizes> {};

TEST_P(GpuBroadcasts, HaveTheBitsOfTheCpu) {
  const Sizes& s = GetParam();
  for (const DType a : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (const DType b : {a, DType::f32}) {
      const auto both = [&](const Device& device) {
        const Variable x(make(s.a, a, 1, device)), y(make(s.b, b, 2, device));
        std::vector<double> values = (x + y).value().to_vector<double>();
        for (const double v : (x * y).value().to_vector<double>()) values.push_back(v);
        return values;
      };
      EXPECT_EQ(both(test_device()), both(Device::cpu())) << name_of(a) << " and " << name_of(b);
    }
}

const Sizes kSizes[] = {
    {"positions", {{3, 5, 16}}, {{5, 16}}},
    {"bias", {{70, 24}}, {{24}}},
    {"bias_of_one_pack", {{3000, 8}}, {{8}}},
    {"bias_not_in_packs", {{70, 23}}, {{23}}},
    {"column", {{70, 24}}, {{70, 1}}},
    {"scalar", {{70, 23}}, {{1}}},
    {"flat_with_a_rest", {{7, 11, 13}}, {{7, 11, 13}}},
    {"less_than_a_pack", {{7}}, {{7}}},
    {"images", {{2, 3, 4, 5, 16}}, {{3, 1, 5, 16}}},
    {"odd_everywhere", {{3, 7, 11, 13}}, {{7, 1, 13}}},
    {"large_extents", {{2, 4099, 3, 1}}, {{2, 1, 3, 1}}},
    {"slice_in_packs", {{6, 16}, 8}, {{16}}},
    {"slice_across", {{6, 16}, 3}, {{6, 16}}},
    {"slice_of_a_bias", {{6, 16}}, {{16}, 4}},
    {"both_repeat", {{4, 1, 8}}, {{1, 9, 8}}},
};
INSTANTIATE_TEST_SUITE_P(Sizes, GpuBroadcasts, testing::ValuesIn(kSizes),
                         [](const auto& test) { return test.param.name; });

TEST(GpuFill, FillsEveryDtypeAtEveryAlignmentAndNothingElse) {
  for (const DType dtype :
       {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64, DType::i32, DType::u8, DType::boolean})
    for (const std::int64_t cols : {1, 3, 4, 16, 30})
      for (const std::int64_t before : {0, 1, 8}) {
        const auto filled = [&](const Device& device) {
          Tensor all = Tensor::zeros({5, before + cols + 2}, dtype, device);
          all.channel_slice(before, cols).fill(1.7);
          return all.to_vector<double>();
        };
        EXPECT_EQ(filled(test_device()), filled(Device::cpu())) << name_of(dtype) << ' ' << cols << ' ' << before;
      }
  Tensor large = Tensor::empty({1}, DType::i64, test_device());
  large.fill(16777217);
  EXPECT_EQ(large.to_vector<std::int64_t>().at(0), 16777217) << "not through a float";
}

}  // namespace
}  // namespace binade
