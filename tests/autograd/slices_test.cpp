#include <gtest/gtest.h>

#include "binade/autograd/functions.h"
#include "binade/core/ops/output_view.h"
#include "tests/autograd/test_ops.h"
#include "tests/core/op_check.h"

// Concatenation without copies: results that are adjacent in one tensor, and gradients that are channel slices of
// another gradient (docs/decisions/0033-concat-without-copies.md).
namespace binade {
namespace {

using test::noise;
using testing::scale;

/// Counts the gradients that Doubling received and wrote in backward.
struct Counts {
  int slices = 0;   ///< received gradients that are channel slices
  int held = 0;     ///< existing gradients that it added to
  int pitched = 0;  ///< existing gradients that were channel slices
};

/// y = 2 x. Accepts channel slices if `slices`, and adds to an existing gradient.
template <bool slices>
struct Doubling {
  struct Params {
    Counts* counts = nullptr;
  };
  static constexpr OpInfo info{.name = "doubling", .slices = slices};
  static Tensors forward(OpContext& ctx, std::span<const Tensor> in, const Params&) {
    return {testing::Scale::map(in[0], ctx.store_dtype, [](double x) { return 2 * x; })};
  }
  static void backward(const OpContext&, std::span<const Tensor> gy, GradSink& gx, const Params& p) {
    const GradSink::Sum sum = gx.add_to(0);
    p.counts->slices += gy[0].contiguous() ? 0 : 1;
    p.counts->held += sum.holds ? 1 : 0;
    p.counts->pitched += sum.tensor.contiguous() ? 0 : 1;
    Tensor to = sum.tensor;
    const Tensor own = testing::Scale::map(gy[0], DType::f32, [](double g) { return 2 * g; });
    const std::int64_t cols = to.shape().cols();
    for (std::int64_t i = 0; i < to.numel(); ++i) {
      float& element = to.mutable_data<float>()[i / cols * to.pitch() + i % cols];
      element = static_cast<float>(own.at(i)) + (sum.holds ? element : 0.0f);
    }
  }
};
template <bool slices>
Variable doubled(const Variable& x, Counts& counts) {
  return apply_one<Doubling<slices>>({&counts}, {x});
}

class Slices : public ::testing::Test {
 protected:
  Variable leaf_ = Variable(noise({3, 8}, 1, DType::f32), true);
  Tensor cotangent_ = noise({3, 16}, 2, DType::f32);
  Counts counts_;

  /// Returns factor times the gradient of the leaf h if the gradient of concat({h, 2 h}) is the cotangent.
  std::vector<float> expected(double factor = 1) const {
    std::vector<float> sum;
    for (std::int64_t r = 0; r < 3; ++r)
      for (std::int64_t c = 0; c < 8; ++c)
        sum.push_back(static_cast<float>(factor * cotangent_.at(r * 16 + c)) +
                      static_cast<float>(2 * factor * cotangent_.at(r * 16 + 8 + c)));
    return sum;
  }
};

TEST_F(Slices, OfAGradientGoToOpsThatAcceptThemAndDenseCopiesToOthers) {
  const Variable h = scale(leaf_, 1);
  backward(scale(concat({h, doubled<true>(scale(h, 1), counts_)}), 1), cotangent_);
  EXPECT_EQ(counts_.slices, 1);
  EXPECT_EQ(leaf_.grad().to_vector<float>(), expected());
  counts_ = {};
  leaf_.zero_grad();
  const Variable other = scale(leaf_, 1);
  backward(scale(concat({other, doubled<false>(scale(other, 1), counts_)}), 1), cotangent_);
  EXPECT_EQ(counts_.slices, 0);
  EXPECT_EQ(leaf_.grad().to_vector<float>(), expected());
}

/// As in a U-Net: when the second reader of the skip connection adds its gradient, the existing gradient is a channel
/// slice of the concat's gradient.
TEST_F(Slices, ThatArePendingAreAddedToByOpsThatAcceptThem) {
  for (const bool can : {true, false}) {
    counts_ = {};
    leaf_.zero_grad();
    const Variable h = scale(leaf_, 1);
    const Variable once = can ? doubled<true>(h, counts_) : doubled<false>(h, counts_);
    backward(scale(concat({h, scale(once, 1)}), 1), cotangent_);
    EXPECT_EQ(counts_.held, can ? 1 : 0);
    EXPECT_EQ(counts_.pitched, can ? 1 : 0);
    EXPECT_EQ(leaf_.grad().to_vector<float>(), expected()) << can;
  }
}

TEST_F(Slices, OfGradientsThatOthersHoldAreNotAddedTo) {
  const Variable h = scale(leaf_, 1);
  const std::vector<float> before = cotangent_.to_vector<float>();
  backward(concat({h, scale(doubled<true>(h, counts_), 1)}), cotangent_);  // slices of the caller's cotangent
  EXPECT_EQ(counts_.held, 0);
  EXPECT_EQ(leaf_.grad().to_vector<float>(), expected());
  EXPECT_EQ(cotangent_.to_vector<float>(), before);

  leaf_.zero_grad();
  const Variable twice = scale(leaf_, 1);
  const Variable both = concat({twice, scale(doubled<true>(twice, counts_), 1)});
  backward(both + concat({twice, scale(doubled<true>(twice, counts_), 1)}),
           cotangent_);  // both concatenations receive one gradient tensor
  EXPECT_EQ(leaf_.grad().to_vector<float>().size(), 24u);
  for (std::size_t i = 0; i < 24; ++i) EXPECT_NEAR(leaf_.grad().to_vector<float>()[i], expected(2)[i], 1e-5) << i;
  EXPECT_EQ(cotangent_.to_vector<float>(), before);
}

TEST_F(Slices, OfAVariableThatIsConcatenatedTwiceAddUp) {
  const Variable h = scale(leaf_, 1);
  backward(scale(concat({h, h}), 1), cotangent_, {.retain_graph = true});
  std::vector<float> sum;
  for (std::int64_t i = 0; i < 24; ++i)
    sum.push_back(static_cast<float>(cotangent_.at(i / 8 * 16 + i % 8)) +
                  static_cast<float>(cotangent_.at(i / 8 * 16 + 8 + i % 8)));
  EXPECT_EQ(leaf_.grad().to_vector<float>(), sum);
}

TEST_F(Slices, GoToLeavesAsCopies) {
  const Variable other(noise({3, 8}, 3, DType::f32), true);
  const Variable y = scale(concat({leaf_, other}), 1);
  backward(y, cotangent_, {.retain_graph = true});
  EXPECT_TRUE(leaf_.grad().contiguous());
  EXPECT_FALSE(leaf_.grad().shares_storage_with(other.grad()));
  EXPECT_EQ(leaf_.grad().to_vector<float>(), cotangent_.channel_slice(0, 8).to_vector<float>());
  backward(y, cotangent_);
  EXPECT_EQ(other.grad().at(0), 2 * cotangent_.at(8));
}

/// A batch norm saves its output for backward (as the mask of its ReLU). Later a convolution writes the other channels
/// of the same buffer.
struct Halves {
  std::shared_ptr<ops::ConcatBuffer> buffer = std::make_shared<ops::ConcatBuffer>(16);
  Variable x = Variable(noise({1, 4, 4, 8}, 1, DType::f32), true);
  Variable w = Variable(noise({8, 2, 2, 8}, 2, DType::f32), true);
  Variable left =
      batch_norm(x, {}, {}, {.relu = true, .residual = noise({1, 4, 4, 8}, 3, DType::f32), .into = {buffer, 0}}).y;
  Variable right = conv_transpose2d(max_pool2d(left, {.kernel = 2}), w, {}, {.stride = 2, .into = {buffer, 8}});
  Variable both = concat({left, right});
};

TEST_F(Slices, WrittenLaterDoNotInvalidateASavedSibling) {
  const Halves halves;
  ASSERT_TRUE(halves.both.value().shares_storage_with(halves.left.value()));
  ASSERT_TRUE(halves.both.value().shares_storage_with(halves.right.value()));
  EXPECT_NO_THROW(backward(sum(halves.both)));
}

TEST_F(Slices, OverwrittenAfterForwardAreDetectedInBackward) {
  const Halves halves;
  Tensor value = halves.left.value();
  value.fill(1);
  EXPECT_THROW(backward(sum(halves.both)), AutogradError);
}

}  // namespace
}  // namespace binade
