#include "binade/nn/summary.h"

#include <gtest/gtest.h>

#include "binade/core/precision.h"
#include "binade/core/runtime.h"
#include "binade/nn/activation.h"
#include "binade/nn/attention.h"
#include "binade/nn/batch_norm.h"
#include "binade/nn/conv2d.h"
#include "binade/nn/conv_transpose2d.h"
#include "binade/nn/layer_norm.h"
#include "binade/nn/linear.h"
#include "binade/nn/pooling.h"
#include "binade/nn/sequential.h"

namespace binade::nn {
namespace {

const SummaryRow& row(const Summary& s, const std::string& path) {
  for (const SummaryRow& r : s.rows)
    if (r.path == path) return r;
  ADD_FAILURE() << "no row for " << path;
  return s.rows.front();
}

TEST(ModelSummary, CountsTheFlopsOfConvolutions) {
  const Runtime runtime({.seed = 1});
  Sequential net(Conv2d({.in = 3, .out = 8, .kernel = 3, .padding = 1, .bias = false}), BatchNorm2d({.channels = 8}),
                 Relu(), MaxPool2d(), ConvTranspose2d({.in = 8, .out = 4, .kernel = 2, .stride = 2}),
                 Conv2d({.in = 4, .out = 6, .kernel = 3, .stride = 2, .groups = 2}));
  const Summary s = summary(net, Tensor::zeros({2, 10, 12, 3}));
  // a convolution: for each output value, one multiply-add per filter value (R S C / groups)
  EXPECT_EQ(row(s, "0").flops, 2LL * (2 * 10 * 12 * 8) * (3 * 3 * 3));
  // a transposed convolution: for each input value, one multiply-add per filter value (R S K / groups)
  EXPECT_EQ(row(s, "4").flops, 2LL * (2 * 5 * 6 * 8) * (2 * 2 * 4));
  EXPECT_EQ(row(s, "5").flops, 2LL * (2 * 4 * 5 * 6) * (3 * 3 * 2));
  EXPECT_EQ(s.flops, row(s, "0").flops + row(s, "4").flops + row(s, "5").flops);
  EXPECT_EQ(row(s, "0").output_shape, "(2, 10, 12, 8)");
  EXPECT_EQ(row(s, "3").output_shape, "(2, 5, 6, 8)");
  EXPECT_EQ(row(s, "").output_shape, "(2, 4, 5, 6)");
  EXPECT_EQ(row(s, "1").kind, "BatchNorm2d");
  EXPECT_EQ(row(s, "1").parameters, 16);
  EXPECT_EQ(s.parameters, 3 * 3 * 3 * 8 + 16 + (8 * 2 * 2 * 4 + 4) + (6 * 3 * 3 * 2 + 6));
}

TEST(ModelSummary, CountsTheFlopsOfAttentionTheSameFusedAndComposed) {
  const Runtime runtime({.seed = 1});
  for (const bool composed : {false, true}) {
    MultiHeadAttention a({.dim = 12, .heads = 3, .composed = composed});
    const Summary s = summary(a, Tensor::zeros({2, 5, 12}));
    const std::int64_t projection = 2LL * 10 * 12 * 12;
    EXPECT_EQ(row(s, "out").flops, projection);
    EXPECT_EQ(row(s, "query").flops, composed ? projection : 0) << "of one op at the attention, unless it is composed";
    // q k^T and p v: per head and batch, T x T dot products of 4 values, twice
    const std::int64_t own = 2LL * (2 * 2 * 3 * 5 * 5 * 4);
    EXPECT_EQ(row(s, "").flops, composed ? own : own + 3 * projection);
    EXPECT_EQ(s.flops, own + 4 * projection);
  }
}

TEST(ModelSummary, CountsSavedTensorsOnceAndReportsThePrecision) {
  const Runtime runtime({.seed = 1});
  Sequential net(Linear({.in = 16, .out = 32}), LayerNorm({.dim = 32}), Linear({.in = 32, .out = 8}));
  {
    const Summary s = summary(net, Tensor::zeros({10, 16}));
    // saved: x of the linear; x, mean and rstd of the norm; x of the second linear. Weights are not counted as
    // activations.
    EXPECT_EQ(row(s, "0").activation_bytes, 10 * 16 * 4);
    EXPECT_EQ(row(s, "1").activation_bytes, 10 * 32 * 4 + 2 * 10 * 4);
    EXPECT_EQ(row(s, "2").activation_bytes, 10 * 32 * 4);
    EXPECT_EQ(row(s, "2").precision, "f32");
  }
  const PolicyScope scope(PrecisionPolicy{.name = "fp16", .low = DType::f16}.with("2", DType::f32));
  const Summary s = summary(net, Tensor::zeros({10, 16}));
  EXPECT_EQ(row(s, "0").precision, "f16");
  EXPECT_EQ(row(s, "1").precision, "f16");
  EXPECT_NE(row(s, "2").precision.find("f32"), std::string::npos);
  EXPECT_EQ(row(s, "1").activation_bytes, 10 * 32 * 2 + 2 * 10 * 4);
}

struct TwoPrecisions : Module {
  Variable forward(const Variable& x) override { return relu(cast(relu(cast(x, DType::bf16)), DType::f16)); }
  void visit(Visitor&) override {}
};

TEST(ModelSummary, ListsEachPrecisionOfAModule) {
  const Runtime runtime({.seed = 1});
  TwoPrecisions net;
  EXPECT_EQ(row(summary(net, [&] { return net(Variable(Tensor::zeros({2}), true)); }), "").precision, "f32 bf16 f16");
}

TEST(ModelSummary, DoesNotChangeStatisticsAndPrintsATotal) {
  const Runtime runtime({.seed = 1});
  BatchNorm2d norm({.channels = 4});
  const Summary s = summary(norm, Tensor::full({2, 3, 3, 4}, 5));
  EXPECT_EQ(norm.running_mean.value().at(0), 0);
  EXPECT_FALSE(norm.running_mean.pending());
  const std::string text = s.to_string();
  EXPECT_NE(text.find("BatchNorm2d"), std::string::npos);
  EXPECT_NE(text.find("total"), std::string::npos);
}

}  // namespace
}  // namespace binade::nn
