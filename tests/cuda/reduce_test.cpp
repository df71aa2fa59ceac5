#include "binade/core/ops/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "binade/core/kernels/table.h"
#include "binade/core/ops/move.h"
#include "binade/core/random.h"
#include "binade/cuda/gpu.h"
#include "tests/cuda/device.h"

// Reductions and ops that move elements, compared with the CPU, at sizes for which the device uses different methods.
namespace binade {
namespace {

Tensor random(const Shape& shape, DType dtype) {
  const RandomStream stream{.seed = 9, .purpose = RngPurpose::kData};
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * stream.uniform(i) - 1;
  return Tensor::from(values, shape).to(dtype);
}

struct Sizes {
  Shape x, y;
};

TEST(GpuReduce, SumsAreRightForEveryDivisionOfWork) {
  for (const Sizes& s :
       {Sizes{{3, 70001}, {3, 1}}, Sizes{{2, 16, 40}, {2, 1, 40}}, Sizes{{5000, 24}, {1, 24}},
        Sizes{{3, 700, 9}, {3, 1, 9}}, Sizes{{40, 3, 50, 2}, {1, 3, 1, 2}},
        Sizes{{2, 3, 4, 5, 6, 7}, {1, 3, 1, 5, 1, 7}}, Sizes{{100001}, {1}}, Sizes{{33, 1030}, {1, 1}}})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      const Tensor x = random(s.x, dtype), there = x.to(test_device());
      const auto both = [&](const Tensor& from, bool slice) {
        const Tensor source = slice ? from.channel_slice(0, from.dim(from.rank() - 1) / 2 + 1) : from;
        Shape to = s.y;
        if (slice && to.dim(-1) != 1) to = to.with_dim(to.rank() - 1, source.dim(-1));
        Tensor y = Tensor::empty(to, accumulate_dtype(dtype), from.device());
        ops::sum_to(source, y);
        ops::ReduceParams over{.axes = {}, .keepdim = true};
        for (int d = 0; d < to.rank(); ++d)
          if (to.dim(d) == 1) over.axes.push_back(d);
        OpContext ctx;
        ctx.store_dtype = dtype;
        const Tensor largest = ops::Max::forward(ctx, std::span(&source, 1), over)[0];
        std::vector<double> values = y.to_vector<double>();
        for (const double v : largest.to_vector<double>()) values.push_back(v);
        return values;
      };
      for (const bool slice : {false, true}) {
        const std::vector<double> got = both(there, slice), want = both(x, slice);
        ASSERT_EQ(got.size(), want.size());
        for (std::size_t i = 0; i < want.size(); ++i)
          ASSERT_NEAR(got[i], want[i], 1e-4) << s.x.to_string() << " to " << s.y.to_string() << ", element " << i;
        EXPECT_EQ(both(there, slice), got) << "twice the same";
      }
    }
}

TEST(GpuMove, PermutesTensorsOfEverySize) {
  for (const Shape& shape : {Shape{3, 5, 70}, Shape{65, 2, 33}, Shape{1, 40, 64}, Shape{2, 3, 4, 5, 6}})
    for (const DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64}) {
      std::vector<int> order(static_cast<std::size_t>(shape.rank()));
      for (int d = 0; d < shape.rank(); ++d) order[static_cast<std::size_t>(d)] = (d * 2 + 1) % shape.rank();
      if (shape.rank() % 2 == 0) continue;  // for even ranks this order is no permutation
      const Tensor x = random(shape, DType::f32).to(dtype);
      const auto permuted = [&](const Tensor& from) {
        PermuteCopy a{.element_bytes = size_of(dtype), .rank = shape.rank()};
        for (int d = 0; d < shape.rank(); ++d) {
          a.dims[d] = shape.dim(order[static_cast<std::size_t>(d)]);
          a.from_stride[d] = 1;
          for (int e = order[static_cast<std::size_t>(d)] + 1; e < shape.rank(); ++e) a.from_stride[d] *= shape.dim(e);
        }
        Tensor y = Tensor::empty(Shape{shape.numel()}, dtype, from.device());
        a.from = from.raw();
        a.to = y.mutable_raw();
        kernels(from.device()).permute(a);
        return y.to_vector<double>();
      };
      EXPECT_EQ(permuted(x.to(test_device())), permuted(x)) << shape.to_string() << " of " << name_of(dtype);
    }
}

}  // namespace
}  // namespace binade
