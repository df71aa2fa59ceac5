// Arguments that once made an op crash, hang or return a wrong result. Each comment says what happened.
#include <gtest/gtest.h>

#include <limits>

#include "binade/autograd/functions.h"
#include "binade/core/error.h"
#include "binade/core/parallel.h"
#include "binade/core/runtime.h"
#include "binade/nn/attention.h"
#include "binade/nn/dropout.h"
#include "tests/core/no_memory.h"
#include "tests/fuzz/watch.h"

namespace binade {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMany = std::int64_t{1} << 50;

struct HostileArguments : ::testing::Test {
  Runtime runtime{{.threads = 2}};
};

// Ops looped over 2^50 rows without elements, which would take years.
TEST_F(HostileArguments, RowsWithoutElementsAreNotLoopedOver) {
  const Variable x(Tensor::empty({kMany, 0}), true);
  Tensor filled = Tensor::full({kMany, 0}, 1);
  filled.copy_from(x.value());
  const Variable three(Tensor::empty({kMany, 3, 0}), true), image(Tensor::empty({1, kMany, 1, 0}), true);
  for (const Variable& y : {softmax(x), softmax(three, 1), log_softmax(three, 1), layer_norm(x), rms_norm(x),
                            batch_norm(x, {}, {}).y, add_layer_norm(x, x).y}) {
    EXPECT_EQ(y.value().numel(), 0);
    backward(y, Tensor::empty(y.shape(), y.dtype()));
  }
  EXPECT_THROW(max_pool2d(image), ShapeError);
  EXPECT_THROW(avg_pool2d(image), ShapeError);
}

// Lists of batches, rows or indices were allocated with 2^50 entries. They threw std::bad_alloc, which is not
// documented.
TEST_F(HostileArguments, BatchesWithoutElementsAreNotListed) {
  const Variable a(Tensor::zeros({1, 3, 4}), true), b(Tensor::empty({kMany, 4, 0}), true);
  const Variable y = matmul(a, b);
  backward(y, Tensor::empty(y.shape()));
  EXPECT_EQ(a.grad().to_vector<float>(), std::vector<float>(12, 0.0f));
  const Variable table(Tensor::empty({kMany, 0}), true);
  const Variable rows = embedding(table, Tensor::from(std::vector<std::int64_t>{5, 7}, {2}));
  backward(rows, Tensor::empty(rows.shape()));
  EXPECT_THROW(group_norm(Tensor::empty({2, 3, 0}), kMany), ShapeError);
  nn::MultiHeadAttention attention({.dim = 4, .heads = 2, .causal = true, .composed = true});
  EXPECT_EQ(attention(Tensor::empty({0, 1 << 20, 4})).value().numel(), 0);
}

// Backward looped over the heads.
TEST_F(HostileArguments, HeadsWithoutElementsAreNotLoopedOver) {
  nn::MultiHeadAttention attention({.dim = 4, .heads = 2});
  const Variable x(Tensor::empty({kMany, 0, 4}), true);
  backward(attention(x), Tensor::empty(x.shape()));
  EXPECT_EQ(x.grad().numel(), 0);
  const Variable queries(Tensor::empty({1, 0, kMany, 1}), true), keys(Tensor::zeros({1, 3, 1, 1}), true);
  backward(binade::attention(queries, keys, keys), Tensor::empty(queries.shape()));
  EXPECT_EQ(keys.grad().to_vector<float>(), std::vector<float>(3, 0.0f));
}

// For every pixel, the loop over the filter ran although there are no channels. It took minutes to compute nothing.
TEST_F(HostileArguments, FiltersWithoutChannelsAreNotLoopedOver) {
  const Variable bias(Tensor::full({2}, 3), true);
  const Variable painted = conv_transpose2d(Variable(Tensor::empty({1, 1, 1, 0}), true),
                                            Tensor::empty({0, 1 << 20, 2, 2}), bias, {.stride = 2});
  const Variable seen = conv2d(Variable(Tensor::empty({1, 4, 1 << 20, 0}), true), Tensor::empty({2, 2, 1 << 19, 0}),
                               bias, {.padding = 1});
  for (const Variable& y : {painted, seen}) {
    for (const float value : y.value().to_vector<float>()) ASSERT_EQ(value, 3);
    backward(y, Tensor::zeros(y.shape()));
  }
}

// The borders of images without pixels were multiplied by the filter, which gave 0 * inf.
TEST_F(HostileArguments, ImagesWithoutPixelsAddNothingToTheTransposedConvolution) {
  const Tensor w = Tensor::full({33, 3, 3, 1}, std::numeric_limits<double>::infinity());
  const Variable y = conv_transpose2d(Tensor::empty({1 << 16, 1, 0, 33}), w, Variable(Tensor::full({1}, 3)));
  EXPECT_EQ(y.shape(), (Shape{1 << 16, 3, 2, 1}));
  for (const float value : y.value().to_vector<float>()) ASSERT_EQ(value, 3);
}

// With padding, an image without rows has pooling windows. Their results were uninitialized memory.
TEST_F(HostileArguments, AveragesOfPaddingAloneAreZero) {
  const Variable y = avg_pool2d(Tensor::empty({1, 0, 3, 2}), {.kernel = 2, .stride = 1, .padding = 1});
  EXPECT_EQ(y.shape(), (Shape{1, 1, 4, 2}));
  EXPECT_EQ(y.value().to_vector<float>(), std::vector<float>(8, 0.0f));
}

// The sampling grid, with an entry per row, was allocated before the image was checked.
TEST_F(HostileArguments, UpsamplingToTooManyPixelsIsAShapeError) {
  const Variable x(Tensor::zeros({1, 2, 2, 1}));
  EXPECT_THROW(upsample_to(x, kMany, 2), ShapeError);
  EXPECT_THROW(upsample(x, kMost), ShapeError);
  EXPECT_EQ(upsample_to(Tensor::empty({0, 2, 2, 1}), 1 << 29, 1 << 29).value().numel(), 0);
}

// Sums and products of these numbers overflowed, some while the error message was formatted.
TEST_F(HostileArguments, OptionsThatOverflowAreRefused) {
  const Tensor t = Tensor::zeros({2, 3, 4});
  for (const std::int64_t begin : {std::int64_t{1}, kMost}) {
    EXPECT_THROW(t.channel_slice(begin, kMost), ShapeError);
    EXPECT_THROW(t.narrow(begin, kMost), ShapeError);
    EXPECT_THROW(narrow(t, 1, begin, kMost), ShapeError);
  }
  EXPECT_THROW(slice(t, 1, -kMost - 1, kMost), ShapeError);
  const Variable x(Tensor::zeros({1, 4, 4, 2})), w(Tensor::zeros({2, 3, 3, 2}));
  for (const std::int64_t n : {kMost, -kMost, std::int64_t{1} << 40}) {
    EXPECT_THROW(conv2d(x, w, {}, {.padding = n}), ArgumentError);
    EXPECT_THROW(conv2d(x, w, {}, {.dilation = n}), ArgumentError);
    EXPECT_THROW(conv2d(x, w, {}, {.groups = n}), ArgumentError);
    EXPECT_THROW(conv_transpose2d(x, w, {}, {.stride = n}), ArgumentError);
    EXPECT_THROW(max_pool2d(x, {.kernel = n, .stride = 1, .padding = n / 2}), ShapeError);
    EXPECT_THROW(avg_pool2d(x, {.kernel = n, .stride = 1, .padding = n / 2}), ShapeError);
  }
}

// The gradient of a scatter allocated 24 bytes for each element of the tensor, also if nothing was added to it.
TEST_F(HostileArguments, TheGradientOfAFewAdditionsTakesNoTotalsOfAllElements) {
  const std::int64_t n = 1 << 20;
  const Variable index(Tensor::from(std::vector<std::int64_t>{5, n - 1, 5}, {3}));
  const auto peak_of = [&](auto&& f) {
    const Variable x(Tensor::full({n}, 2), true), source(Tensor::full({3}, 3), true);
    const Variable y = f(x, source);
    const fuzz::MemoryWatch watch;
    backward(y, Tensor::full({n}, 1));
    EXPECT_EQ(x.grad().at(0), 1);
    return static_cast<std::int64_t>(watch.peak());
  };
  using V = const Variable&;
  const std::int64_t least = peak_of([&](V x, V source) { return scatter(x, 0, index, source); }) + n;
  EXPECT_LE(peak_of([&](V x, V source) { return scatter_add(x, 0, index, source); }), least);
  EXPECT_LE(peak_of([&](V x, V source) { return scatter_reduce(x, 0, index, source, ScatterReduce::kMean); }), least);
}

// The number of rows was computed from the empty result, and the gradient of the input was never written.
TEST_F(HostileArguments, ALinearWithoutOutputsHasAZeroInputGradient) {
  const Variable x(Tensor::zeros({5, 7}), true), w(Tensor::zeros({0, 7}), true);
  const Variable y = linear(x, w);
  for (int i = 0; i < 64; ++i) Tensor::full({5, 7}, 3);  // fills the memory that is allocated next
  backward(y, Tensor::empty({5, 0}));
  for (const float value : x.grad().to_vector<float>()) EXPECT_EQ(value, 0);
}

// The image is empty, and the range of pixels under the filter was computed from an address in front of it.
TEST_F(HostileArguments, AFilterOverPaddingAloneHasAZeroGradient) {
  const Variable x(Tensor::zeros({2, 3, 0, 1})), w(Tensor::full({2, 3, 3, 1}, 1), true);
  const Variable y = conv2d(x, w, {}, {.padding = 2});
  backward(y, Tensor::full(y.shape(), 3));
  for (const float value : w.grad().to_vector<float>()) EXPECT_EQ(value, 0);
}

// If a pool thread first used its scratch without memory, the C library ended the process: "failed to register TLS
// destructor".
TEST_F(HostileArguments, APoolThreadWithoutMemoryDoesNotEndTheProcess) {
  const Variable x(Tensor::zeros({2, 33, 33, 8})), w(Tensor::zeros({8, 3, 3, 8}));
  EXPECT_EQ(test::exit_status_of([&] {
              set_num_threads(1);
              conv2d(x, w);  // allocates this thread's scratch, and memory that the next result reuses
              set_num_threads(2);
              parallel_blocks(64, [](std::int64_t) {});
              test::forbid_memory();
              for (int calls = 0; calls < (test::kMemoryCanRunOut ? 10'000 : 10); ++calls) {
                try {
                  conv2d(x, w);
                } catch (const OutOfMemoryError&) {  // the other thread took part
                  return 0;
                }
              }
              return 0;
            }),
            0);
}

// In evaluation, dropout returned the undefined variable, and the next op failed with an error about itself.
TEST_F(HostileArguments, DropoutOfAnUndefinedVariableIsRefusedInEvaluationToo) {
  nn::Dropout dropout({.p = 0.5});
  dropout.eval();
  EXPECT_THROW(dropout(Variable()), ArgumentError);
}

}  // namespace
}  // namespace binade
