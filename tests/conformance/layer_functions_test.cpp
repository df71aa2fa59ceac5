#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "binade/autograd/functions.h"
#include "binade/autograd/gradcheck.h"
#include "binade/nn/module.h"
#include "tests/conformance/case.h"
#include "tests/conformance/composed.h"
#include "tests/core/op_check.h"
#include "tests/tested_device.h"

/// Functions for layers that are composed of ops (activations.h, images.h, conv.h and pool.h in one and three
/// dimensions, rotary positions, cosines, and named_functions()): every dtype on the tested device is compared with f64
/// on the CPU. Also tests gradients, channel slices, NaN, and equal bits with any number of threads. tests/golden
/// compares them with PyTorch's.
namespace binade::conformance {
namespace {

using Inputs = std::vector<Variable>;

/// Filters with the dtype and device of x.
Variable filters_like(const Variable& x, const Shape& shape) {
  return random(shape, 50, -0.5, 0.5).to(x.dtype()).to(x.device());
}

std::vector<Composed> functions() {
  std::vector<Composed> all{
      {"glu", [](const Inputs& in) { return glu(in[0], 1); }, {{2, 6, 5}}},
      {"pixel_shuffle", [](const Inputs& in) { return pixel_shuffle(in[0], 2); }, {{2, 3, 2, 12}}},
      {"pixel_unshuffle", [](const Inputs& in) { return pixel_unshuffle(in[0], 3); }, {{2, 3, 6, 2}}},
      {"adaptive_avg_pool2d",
       [](const Inputs& in) {
         return adaptive_avg_pool2d(in[0], {3, 2});
       },
       {{2, 4, 5, 3}}},
      {"adaptive_avg_pool2d_mixed",
       [](const Inputs& in) {
         return adaptive_avg_pool2d(in[0], {2, 3});
       },
       {{1, 4, 5, 3}}},
      {"adaptive_max_pool2d",
       [](const Inputs& in) {
         return adaptive_max_pool2d(in[0], {3, 2});
       },
       {{2, 4, 5, 3}}},
      {"local_response_norm",
       [](const Inputs& in) { return local_response_norm(in[0], 3, 0.5, 0.75, 2); },
       {{2, 3, 7}}},
      {"rotary",
       [](const Inputs& in) {
         const DType dtype = in[0].dtype() == DType::f64 ? DType::f64 : DType::f32;
         return rotary(in[0], rotary_table(3, 4, 100, 2, dtype, in[0].device()), RotaryPairs::kNeighbors);
       },
       {{2, 3, 2, 5}}},
      {"conv1d",
       [](const Inputs& in) { return conv1d(in[0], in[1] * 0.25, {}, {.stride = 2, .padding = 1}); },
       {{2, 7, 3}, {4, 3, 3}},
       false},
      {"conv3d",
       [](const Inputs& in) {
         return conv3d(in[0], in[1] * 0.25, {}, {.stride = {2, 1, 1}, .padding = {1, 0, 1}, .groups = 2});
       },
       {{2, 4, 3, 3, 4}, {4, 3, 1, 2, 2}},
       false},
      {"conv_transpose1d",
       [](const Inputs& in) {
         return conv_transpose1d(in[0], filters_like(in[0], {3, 3, 2}), {}, {.stride = 2, .padding = 1});
       },
       {{2, 4, 3}},
       false},
      {"conv_transpose3d",
       [](const Inputs& in) {
         return conv_transpose3d(in[0], filters_like(in[0], {2, 3, 2, 1, 2}), {}, {.stride = 2, .padding = {1, 0, 0}});
       },
       {{2, 3, 2, 3, 2}},
       false},
      {"conv_transpose3d_without_overlap",
       [](const Inputs& in) {
         return conv_transpose3d(in[0], filters_like(in[0], {2, 2, 2, 2, 3}), {}, {.stride = 2});
       },
       {{2, 3, 2, 3, 2}},
       false},
      {"max_pool1d",
       [](const Inputs& in) { return max_pool1d(in[0], {.kernel = 3, .stride = 2, .padding = 1}); },
       {{2, 7, 3}}},
      {"avg_pool1d",
       [](const Inputs& in) { return avg_pool1d(in[0], {.kernel = 3, .stride = 2, .padding = 1}); },
       {{2, 7, 3}}},
      {"max_pool3d",
       [](const Inputs& in) {
         return max_pool3d(in[0], {.kernel = {3, 2, 2}, .stride = 2, .padding = {1, 0, 1}});
       },
       {{2, 5, 4, 4, 3}}},
      {"avg_pool3d",
       [](const Inputs& in) {
         return avg_pool3d(in[0], {.kernel = {3, 2, 2}, .stride = 2, .padding = {1, 0, 1}, .count_include_pad = false});
       },
       {{2, 5, 4, 4, 3}}},
      {"adaptive_avg_pool1d", [](const Inputs& in) { return adaptive_avg_pool1d(in[0], 3); }, {{2, 7, 3}}},
      {"adaptive_max_pool3d",
       [](const Inputs& in) {
         return adaptive_max_pool3d(in[0], {2, 3, 4});
       },
       {{2, 5, 4, 4, 3}}},
      {"adaptive_avg_pool3d",
       [](const Inputs& in) {
         return adaptive_avg_pool3d(in[0], {2, 3, 4});
       },
       {{2, 5, 4, 4, 3}}},
      {"cosine_similarity",
       [](const Inputs& in) { return cosine_similarity(in[0], in[1], -1); },
       {{3, 6}, {3, 6}},
       false},
  };
  for (Composed& f : named_functions()) all.push_back(std::move(f));
  return all;
}

/// Returns inputs in double that `dtype` represents exactly.
std::vector<Tensor> inputs_of(const Composed& c, DType dtype) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < c.shapes.size(); ++i)
    inputs.push_back(random(c.shapes[i], 20 + i).to(dtype).to(DType::f64));
  return inputs;
}

TEST(LayerFunctions, AgreeWithDoublePrecisionInEveryDtype) {
  for (const Composed& c : functions())
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      SCOPED_TRACE(c.name + " in " + std::string(name_of(dtype)));
      Inputs exact, rounded;
      for (const Tensor& x : inputs_of(c, dtype)) {
        exact.emplace_back(x);
        rounded.emplace_back(x.to(dtype).to(tested_device()));
      }
      const Tensor want = c.run(exact).value(), got = c.run(rounded).value();
      EXPECT_EQ(got.dtype(), c.keeps_dtype ? dtype : DType::f32);
      ASSERT_EQ(got.shape(), want.shape());
      // Up to four roundings of numbers of the size of the result, or of 2 (the largest input), and errors of f32 sums.
      const double rounding = std::ldexp(0.5, -range_of(dtype).mantissa_bits);
      const std::vector<double> values = got.to_vector<double>();
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(values[i], want.at(static_cast<std::int64_t>(i)), 8 * rounding) << i;
    }
}

TEST(LayerFunctions, HaveTheGradientsOfTheirFormulasAlsoForChannelSlices) {
  for (const Composed& c : functions())
    for (const bool slices : {false, true}) {
      SCOPED_TRACE(c.name);
      std::vector<Tensor> inputs;
      for (std::size_t i = 0; i < c.shapes.size(); ++i) {
        const Shape& shape = c.shapes[i];
        const Tensor wide = random(shape.with_dim(-1, shape.cols() + 3), 30 + i);
        inputs.push_back(slices ? wide.channel_slice(1, shape.cols()) : random(shape, 30 + i));
      }
      const GradcheckResult result = gradcheck(c.run, inputs, {.device = tested_device()});
      EXPECT_TRUE(result.passed) << result.message;
    }
}

TEST(LayerFunctions, HaveSecondDerivatives) {
  for (const Composed& c : functions()) {
    SCOPED_TRACE(c.name);
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < c.shapes.size(); ++i) inputs.push_back(random(c.shapes[i], 60 + i));
    const GradcheckResult result = gradgradcheck(c.run, inputs, {.device = tested_device()});
    EXPECT_TRUE(result.passed) << result.message;
  }
}

TEST(LayerFunctions, PassNanOnLikeDoublePrecision) {
  for (const Composed& c : functions()) {
    Inputs in, exact;
    for (const Tensor& x : inputs_of(c, DType::f32)) {
      Tensor odd = x.to(DType::f32);
      if (in.empty()) odd.mutable_data<float>()[0] = std::nanf("");
      in.emplace_back(odd.to(tested_device()));
      exact.emplace_back(odd.to(DType::f64));
    }
    const std::vector<double> got = c.run(in).value().to_vector<double>(),
                              want = c.run(exact).value().to_vector<double>();
    std::vector<std::size_t> odd, wanted;
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(got[i])) odd.push_back(i);
      if (std::isnan(want[i])) wanted.push_back(i);
    }
    EXPECT_EQ(odd, wanted) << c.name;
    EXPECT_FALSE(odd.empty()) << c.name;
  }
}

/// With an f64 image, a (rearranged) f32 filter is cast to f64. Its gradient is f64 too, until the cast rounds it to
/// f32.
TEST(LayerFunctions, GradientsOfFiltersBesideDoublesAreRoundedOnce) {
  const auto gradient = [](const Shape& filters, const Shape& data, auto convolution) {
    const nn::Parameter w(random(filters, 1, -0.5, 0.5).to(DType::f32).to(tested_device()));
    const Variable x(random(data, 2).to(tested_device()));
    const Variable y = convolution(x, w);
    EXPECT_EQ(y.dtype(), DType::f64);
    backward(y, Tensor::full(y.shape(), 1, DType::f64, tested_device()));
    return w.grad().to_vector<float>();
  };
  EXPECT_EQ(gradient({4, 3, 2}, {2, 40, 2}, [](auto& x, auto& w) { return conv1d(x, w); }),
            gradient({4, 1, 3, 2}, {2, 1, 40, 2}, [](auto& x, auto& w) { return conv2d(x, w); }));
}

/// Under a 16-bit policy, the gradients of filters of sequences and volumes are f32, like those of filters of images.
/// They may be beyond the range of f16.
TEST(LayerFunctions, GradientsOfFiltersAreF32UnderAPolicy) {
  for (const DType low : {DType::f16, DType::bf16}) {
    PrecisionPolicy given;
    given.low = low;
    const PolicyScope policy(given);
    const auto gradient = [&](const Shape& filters, const Shape& data, auto convolution) {
      const nn::Parameter w(random(filters, 1, -0.5, 0.5).to(DType::f32).to(tested_device()));
      const Variable x(random(data, 2, 1, 2).to(low).to(tested_device()));
      const Variable y = convolution(x, w);
      backward(y, Tensor::full(y.shape(), 8192, y.dtype(), tested_device()));
      EXPECT_EQ(w.grad().dtype(), DType::f32);
      return w.grad().to_vector<float>();
    };
    const auto of_images = gradient({4, 1, 3, 2}, {2, 1, 40, 2}, [](auto& x, auto& w) { return conv2d(x, w); });
    EXPECT_EQ(gradient({4, 3, 2}, {2, 40, 2}, [](auto& x, auto& w) { return conv1d(x, w); }), of_images);
    EXPECT_EQ(gradient({4, 1, 1, 3, 2}, {2, 1, 1, 40, 2}, [](auto& x, auto& w) { return conv3d(x, w); }), of_images);
    EXPECT_GT(of_images[0], 65504.0f);
    const auto transposed = gradient({2, 1, 3, 4}, {2, 1, 40, 2},
                                     [](auto& x, auto& w) { return conv_transpose2d(x, w); });
    EXPECT_EQ(gradient({2, 3, 4}, {2, 40, 2}, [](auto& x, auto& w) { return conv_transpose1d(x, w); }), transposed);
    EXPECT_GT(transposed[0], 65504.0f);
  }
}

TEST(LayerFunctions, HaveTheSameBitsWithAnyNumberOfThreads) {
  for (const Composed& c : functions()) {
    SCOPED_TRACE(c.name);
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < c.shapes.size(); ++i)
      inputs.push_back(random(c.shapes[i].with_dim(0, 40), 40 + i).to(DType::f32));
    test::check_threads([&](const Inputs& in) { return std::vector{c.run(in)}; }, inputs);
  }
}

}  // namespace
}  // namespace binade::conformance
