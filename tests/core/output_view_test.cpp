#include "binade/core/ops/output_view.h"

#include <gtest/gtest.h>

#include "binade/autograd/functions/shape.h"
#include "binade/core/runtime.h"
#include "tests/core/op_check.h"

// Tests ConcatBuffer: results that are written next to each other into one tensor, and concat() of such results.
namespace binade {
namespace {

using ops::ConcatBuffer;
using test::noise;

class ConcatBuffers : public ::testing::Test {
 protected:
  static Tensor take(ConcatBuffer& buffer, std::int64_t begin, std::int64_t channels, DType dtype = DType::f32) {
    return buffer.take(begin, {2, 3, channels}, dtype, Device::cpu());
  }
  Runtime runtime_{{.seed = 3}};
};
using Concat = ConcatBuffers;

TEST_F(ConcatBuffers, SlicesAreAdjacentAndOwnTheTensorTogether) {
  ConcatBuffer buffer(24);
  const Tensor right = take(buffer, 16, 8);
  Tensor left = take(buffer, 0, 16);
  ASSERT_TRUE(left.joined_with(right).defined());
  EXPECT_EQ(left.pitch(), 24);
  left = Tensor();
  EXPECT_TRUE(right.sole_owner());  // the buffer is full, and has dropped its reference
}

TEST_F(ConcatBuffers, EachChannelIsHandedOutOnce) {
  ConcatBuffer buffer(16);
  const Tensor first = take(buffer, 0, 8), again = take(buffer, 0, 8), overlapping = take(buffer, 4, 8);
  EXPECT_EQ(first.pitch(), 16);
  EXPECT_TRUE(again.contiguous());
  EXPECT_TRUE(overlapping.contiguous());
  const Tensor rest = take(buffer, 8, 8), late = take(buffer, 8, 8);
  EXPECT_TRUE(first.joined_with(rest).defined());
  EXPECT_TRUE(late.contiguous());
  EXPECT_TRUE(late.sole_owner());
}

TEST_F(ConcatBuffers, RequestsThatDoNotFitGetASeparateTensor) {
  ConcatBuffer buffer(16);
  const Tensor first = take(buffer, 0, 8);
  EXPECT_TRUE(take(buffer, 8, 8, DType::bf16).contiguous());
  EXPECT_TRUE(buffer.take(8, {2, 4, 8}, DType::f32, Device::cpu()).contiguous());
  EXPECT_FALSE(take(buffer, 8, 8).contiguous());  // the refused requests above took no channels
  EXPECT_THROW(take(buffer, 12, 8), ArgumentError);

  ConcatBuffer odd(12);  // a 16-bit slice would not start on 16 bytes
  EXPECT_TRUE(take(odd, 8, 4, DType::f16).contiguous());
  EXPECT_EQ(take(odd, 8, 4, DType::f16).dtype(), DType::f16);
  EXPECT_FALSE(take(odd, 8, 4, DType::f32).contiguous());
}

TEST_F(Concat, AdjacentSlicesAreNotCopied) {
  const Tensor all = noise({2, 3, 24}, 1, DType::f32);
  const Tensor a = all.channel_slice(0, 8), b = all.channel_slice(8, 4), c = all.channel_slice(12, 12);
  const Variable y = concat({a, b, c});
  EXPECT_EQ(y.value().raw(), all.raw());
  EXPECT_TRUE(y.value().contiguous());
  EXPECT_EQ(y.value().version(), 0u);
  const Variable part = concat({b, c});
  EXPECT_EQ(part.value().raw(), b.raw());
  EXPECT_EQ(part.value().to_vector<float>(), all.channel_slice(8, 16).to_vector<float>());
}

TEST_F(Concat, OtherInputsAreCopied) {
  const Tensor all = noise({2, 3, 16}, 1, DType::f32);
  const Tensor a = all.channel_slice(0, 8), b = all.channel_slice(8, 8);
  for (const Variable& y : {concat({b, a}), concat({a, a}), concat({a, b.clone()}), concat({a}),
                            concat({all.channel_slice(1, 7), b}), concat({a, b}, 1)}) {
    EXPECT_FALSE(y.value().shares_storage_with(all)) << y.shape().to_string();
    EXPECT_TRUE(y.value().contiguous());
  }
  const Tensor swapped = concat({b, a}).value();
  EXPECT_EQ(swapped.channel_slice(0, 8).to_vector<float>(), b.to_vector<float>());
  EXPECT_EQ(swapped.channel_slice(8, 8).to_vector<float>(), a.to_vector<float>());
}

}  // namespace
}  // namespace binade
