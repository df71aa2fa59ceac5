#include "binade/core/tensor.h"

#include <gtest/gtest.h>

#include <thread>

#include "binade/core/cpu_backend.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/elementwise_loops.h"
#include "binade/core/state_dict.h"

namespace binade {
namespace {

Tensor counting(const Shape& shape, DType dtype = DType::f32) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return Tensor::from(values, shape).to(dtype);
}

TEST(Shape, RefusesNegativeTooManyAndOverflowingExtents) {
  EXPECT_THROW(Shape({2, -1}), ShapeError);
  EXPECT_THROW(Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}), ShapeError);
  EXPECT_THROW(Shape({1ll << 40, 1ll << 40}), ShapeError);
  EXPECT_THROW(Shape({1ll << 40, 0, 1ll << 40}), ShapeError);
  EXPECT_EQ(Shape({3, 0, 2}).numel(), 0);
  EXPECT_EQ(Shape({}).numel(), 1);
  EXPECT_EQ(Shape({4, 5, 6}).rows(), 20);
  EXPECT_EQ(Shape({std::int64_t{1} << 40, 0}).rows(), 0) << "nothing to go through";
}

TEST(Shape, BroadcastsLikeNumPy) {
  EXPECT_EQ(broadcast({4, 1, 3}, {2, 1}, "add"), Shape({4, 2, 3}));
  EXPECT_EQ(broadcast({0, 3}, {1}, "add"), Shape({0, 3}));
  EXPECT_EQ(broadcast({}, {2}, "add"), Shape({2}));
  try {
    broadcast({4, 3}, {4, 2}, "add [head]");
    FAIL();
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(), "add [head]: shapes (4, 3) and (4, 2) do not broadcast: 3 against 2 in dimension -1");
  }
}

TEST(Tensor, AChannelSliceSharesMemoryAndHasAPitch) {
  Tensor x = counting({2, 3, 4});
  Tensor slice = x.channel_slice(1, 2);
  EXPECT_FALSE(slice.contiguous());
  EXPECT_EQ(slice.pitch(), 4);
  EXPECT_EQ(slice.at(2), 5);  // row 1, channel 1
  EXPECT_EQ(slice.to_vector<float>(), slice.clone().to_vector<float>());
  EXPECT_THROW(slice.reshape({12}), ShapeError);
  slice.fill(-1);
  EXPECT_EQ(x.at(0), 0);
  EXPECT_EQ(x.at(1), -1);
  EXPECT_EQ(x.at(3), 3);
  EXPECT_THROW(x.channel_slice(3, 2), ShapeError);
}

TEST(Tensor, AdjacentSlicesAreJoined) {
  const Tensor x = counting({2, 3, 8});
  const Tensor left = x.channel_slice(0, 3), right = x.channel_slice(3, 5);
  const Tensor all = left.joined_with(right);
  ASSERT_TRUE(all.defined());
  EXPECT_TRUE(all.contiguous());
  EXPECT_EQ(all.raw(), x.raw());
  EXPECT_EQ(all.shape(), x.shape());
  const Tensor middle = x.channel_slice(1, 2).joined_with(x.channel_slice(3, 2));
  EXPECT_EQ(middle.to_vector<float>(), x.channel_slice(1, 4).to_vector<float>());

  EXPECT_FALSE(right.joined_with(left).defined());
  EXPECT_FALSE(left.joined_with(x.channel_slice(4, 4)).defined());  // a gap
  EXPECT_FALSE(left.joined_with(left).defined());
  EXPECT_FALSE(left.joined_with(right.clone()).defined());
  EXPECT_FALSE(
      left.joined_with(x.narrow(0, 1).channel_slice(3, 5)).defined());  // slices with different numbers of rows
  EXPECT_FALSE(x.narrow(0, 1).joined_with(x.narrow(1, 1)).defined());   // dense tensors are joined only along channels
  EXPECT_FALSE(left.joined_with(Tensor()).defined());
  EXPECT_FALSE(Tensor().joined_with(left).defined());
}

TEST(Tensor, ViewsShareMemoryAndTheVersion) {
  Tensor x = counting({4, 3});
  Tensor rows = x.narrow(1, 2);
  EXPECT_EQ(rows.to_vector<float>(), (std::vector<float>{3, 4, 5, 6, 7, 8}));
  const std::uint64_t before = x.version();
  rows.fill(0);
  EXPECT_GT(x.version(), before);
  EXPECT_EQ(x.view_at(9, {3}).to_vector<float>(), (std::vector<float>{9, 10, 11}));
  EXPECT_THROW(x.view_at(10, {3}), ShapeError);
}

TEST(Tensor, WithOwnVersionSharesMemoryButNotTheVersion) {
  Tensor x = counting({4, 3});
  Tensor rows = x.narrow(1, 2).with_own_version();
  const std::uint64_t before = x.version(), own = rows.version();
  rows.fill(7);
  EXPECT_EQ(x.at(3), 7);
  EXPECT_EQ(x.version(), before);
  EXPECT_GT(rows.version(), own);
  EXPECT_FALSE(Tensor().with_own_version().defined());
}

TEST(Tensor, MutableDataRaisesTheVersionOfAllViewsAlsoFromSeveralThreads) {
  Tensor x = counting({4, 3});
  const std::uint64_t before = x.version();
  std::vector<std::thread> writers;
  for (std::int64_t row = 0; row < 4; ++row)
    writers.emplace_back([rows = x.narrow(row, 1)]() mutable {
      for (int i = 0; i < 100; ++i) rows.mutable_data<float>()[0] = 1;
    });
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(x.version(), before + 400);
  x.mutable_raw();
  EXPECT_EQ(x.version(), before + 400);
}

TEST(Tensor, ConvertsBetweenAllDTypes) {
  const Tensor x = counting({2, 3});
  for (const DType d : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64, DType::i32, DType::u8}) {
    EXPECT_EQ(x.to(d).dtype(), d);
    EXPECT_EQ(x.to(d).to_vector<double>(), x.to_vector<double>()) << name_of(d);
  }
  EXPECT_EQ(x.to(DType::boolean).to_vector<float>(), (std::vector<float>{0, 1, 1, 1, 1, 1}));
}

/// 1752.5 + 2^-30 is just above the midpoint of two f16 values. If it were rounded to f32 first, it would be the
/// midpoint.
TEST(Tensor, ADoubleIsRoundedOnceTo16Bits) {
  const double above_a_tie = 1752.5 + 0x1p-30, below_a_tie = 1753.5 - 0x1p-30;
  const Tensor x = Tensor::from(std::vector<double>{above_a_tie, below_a_tie, -above_a_tie}, {3});
  EXPECT_EQ(x.to(DType::f16).to_vector<double>(), (std::vector<double>{1753, 1753, -1753}));
  const Tensor brain = Tensor::from(std::vector<double>{1 + 0x1p-8 + 0x1p-40, -1 - 0x1p-8 - 0x1p-40}, {2});
  EXPECT_EQ(brain.to(DType::bf16).to_vector<double>(), (std::vector<double>{1 + 0x1p-7, -1 - 0x1p-7}));
  EXPECT_EQ(Tensor::full({1}, above_a_tie, DType::f16).at(0), 1753);
  EXPECT_EQ(Tensor::scalar(above_a_tie, DType::f16).item(), 1753);
  Tensor sum = Tensor::full({1}, 1752, DType::f16);
  accumulate(sum, Tensor::from(std::vector<double>{0.5 + 0x1p-30}, {1}));
  EXPECT_EQ(sum.at(0), 1753);
  // The same for an op that reads f64 and stores f16, where a kernel rounds.
  Tensor stored = Tensor::empty({3}, DType::f16);
  cpu::level().elementwise->convert({x.raw(), DType::f64}, {stored.mutable_raw(), DType::f16}, 3);
  EXPECT_EQ(stored.to_vector<double>(), (std::vector<double>{1753, 1753, -1753}));
}

TEST(Tensor, WrongUseIsATypedError) {
  EXPECT_THROW(Tensor().raw(), ArgumentError);
  EXPECT_THROW(counting({2}).data<double>(), DTypeError);
  EXPECT_THROW(counting({2}).item(), ShapeError);
  EXPECT_THROW(counting({2}).at(2), ShapeError);
  EXPECT_THROW(Tensor::from(std::vector<float>{1, 2}, {3}), ShapeError);
  EXPECT_THROW(Tensor::empty({1ll << 50}), OutOfMemoryError);
}

TEST(Tensor, EmptyTensorsWork) {
  const Tensor x = Tensor::zeros({0, 3});
  EXPECT_EQ(x.clone().numel(), 0);
  EXPECT_EQ(x.to(DType::f16).numel(), 0);
  EXPECT_TRUE(x.to_vector<float>().empty());
  Tensor slice = x.channel_slice(1, 2);  // at an offset of one element in an empty tensor
  EXPECT_EQ(slice.raw(), nullptr);
  EXPECT_EQ(slice.mutable_raw(), nullptr);
  EXPECT_EQ(slice.data<float>(), nullptr);
  EXPECT_EQ(slice.mutable_data<float>(), nullptr);
  EXPECT_EQ(Tensor::zeros({3, 0}).narrow(2, 1).raw(), nullptr);
}

TEST(CpuBackend, ReusesMemoryAndCountsIt) {
  Backend& backend = cpu_backend();
  const std::size_t before = backend.bytes_in_use();
  const void* first = nullptr;
  {
    const Tensor x = Tensor::empty({3 << 20});
    first = x.raw();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0u);
    EXPECT_EQ(backend.bytes_in_use(), before + x.bytes());
  }
  EXPECT_EQ(backend.bytes_in_use(), before);
  EXPECT_EQ(Tensor::empty({3 << 20}).raw(), first);
}

TEST(StateDict, ErrorsNameTheSectionAndEntry) {
  StateDict state;
  state.put("amp/scale", 2.0);
  state.put("amp/steps", std::int64_t{3});
  StateDict all;
  all.merge("run", state);
  EXPECT_EQ(all.section("run/amp").number("scale"), 2.0);
  EXPECT_THROW(state.put("amp/scale", 1.0), ArgumentError);
  try {
    (void)state.integer("amp/scale");
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_NE(std::string(error.what()).find("amp/scale"), std::string::npos);
  }
}

}  // namespace
}  // namespace binade
