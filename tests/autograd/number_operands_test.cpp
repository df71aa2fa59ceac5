#include <gtest/gtest.h>

#include <vector>

#include "binade/autograd/functions.h"
#include "binade/core/error.h"
#include "binade/core/make.h"
#include "binade/core/runtime.h"

// C++ numbers as operands of division, where() and slice(), and x[index]: values and dtypes equal PyTorch's.
namespace binade {
namespace {

std::vector<double> values(const Variable& x) { return x.value().to_vector<double>(); }
using Numbers = std::vector<double>;

class NumberOperands : public ::testing::Test {
 protected:
  Runtime runtime_{{.threads = 1}};
  Variable whole_ = arange(-3, 4);  // i64
  Variable half_ = Tensor::from({-2.5f, -1.f, 1.f, 2.5f}).to(DType::f16);
  Variable mask_ = half_ > 0;
};

TEST_F(NumberOperands, WholeDivisorsKeepWholeNumbers) {
  EXPECT_EQ(values(remainder(whole_, 3)), (Numbers{0, 1, 2, 0, 1, 2, 0}));  // the sign of the divisor, as in Python
  EXPECT_EQ(values(fmod(whole_, 3)), (Numbers{0, -2, -1, 0, 1, 2, 0}));     // the sign of the dividend, as in C
  EXPECT_EQ(values(floor_divide(whole_, 2)), (Numbers{-2, -1, -1, 0, 0, 1, 1}));
  EXPECT_EQ(values(remainder(whole_, -3)), (Numbers{0, -2, -1, 0, -2, -1, 0}));
  for (const Variable& y : {remainder(whole_, 3), fmod(whole_, 3), floor_divide(whole_, 3)})
    EXPECT_EQ(y.dtype(), DType::i64);
  EXPECT_THROW(remainder(whole_, 0), ArgumentError);
}

TEST_F(NumberOperands, FloatingDivisorsOfWholeNumbersGiveF32) {
  const Variable y = remainder(whole_, 1.5);
  EXPECT_EQ(y.dtype(), DType::f32);
  EXPECT_EQ(values(y), (Numbers{0, 1, 0.5, 0, 1, 0.5, 0}));
}

TEST_F(NumberOperands, DivisorsKeepAFloatingDtype) {
  for (const Variable& y : {remainder(half_, 2), remainder(half_, 2.0), floor_divide(half_, 2), fmod(half_, 2)})
    EXPECT_EQ(y.dtype(), DType::f16);
  EXPECT_EQ(values(remainder(half_, 2)), (Numbers{1.5, 1, 1, 0.5}));
  EXPECT_EQ(values(floor_divide(half_, 2)), (Numbers{-2, -1, 0, 1}));
  EXPECT_EQ(values(fmod(half_, 2)), (Numbers{-0.5, -1, 1, 0.5}));
}

TEST_F(NumberOperands, WhereTakesNumbers) {
  EXPECT_EQ(values(where(mask_, half_, 0)), (Numbers{0, 0, 1, 2.5}));
  EXPECT_EQ(values(where(mask_, 0.5, half_)), (Numbers{-2.5, -1, 0.5, 0.5}));
  EXPECT_EQ(where(mask_, half_, 0).dtype(), DType::f16);  // a tensor of one element would make it f32
  EXPECT_EQ(where(mask_, 0.5, half_).dtype(), DType::f16);
  EXPECT_EQ(values(where(mask_, 2, 1)), (Numbers{1, 1, 2, 2}));
  EXPECT_EQ(where(mask_, 2, 1).dtype(), DType::i64);
  EXPECT_EQ(where(mask_, 2.0, 1).dtype(), DType::f32);
  EXPECT_EQ(where(mask_, arange(4), 7).dtype(), DType::i64);
  EXPECT_EQ(where(mask_, arange(4), 0.5).dtype(), DType::f32);
}

TEST_F(NumberOperands, GradientsReachTheVariableAlone) {
  const Variable x(Tensor::from({-1.f, 2.f, 5.f}), true);
  backward(sum(where(x > 0, x, 0.0) + remainder(x, 3)));
  EXPECT_EQ(x.grad().to_vector<double>(), (Numbers{1, 2, 2}));
}

TEST_F(NumberOperands, SliceReachesTheEnd) {
  EXPECT_EQ(values(slice(whole_, 0, 4)), (Numbers{1, 2, 3}));
  EXPECT_EQ(values(slice(whole_, -1, -2)), (Numbers{2, 3}));
  EXPECT_EQ(slice(whole_, 0, 7).dim(0), 0);
  EXPECT_THROW(slice(whole_, 0, 8), ShapeError);
  EXPECT_THROW(slice(whole_, 1, 0), ArgumentError);
}

TEST_F(NumberOperands, BracketsTakeIndicesAndMasks) {
  const Variable x(Tensor::from({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}}), true);
  const Variable rows = x[Tensor::from({{2, 0}, {-1, 2}})];  // negative positions count from the end
  EXPECT_EQ(rows.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(values(rows), (Numbers{5, 6, 1, 2, 5, 6, 5, 6}));
  backward(sum(rows));
  EXPECT_EQ(x.grad().to_vector<double>(), (Numbers{1, 1, 0, 0, 3, 3}));

  const Variable large = x[select(x, 1, 0) > 2];  // a mask of rows
  EXPECT_EQ(large.shape(), (Shape{2, 2}));
  EXPECT_EQ(values(large), (Numbers{3, 4, 5, 6}));
  EXPECT_EQ(values(x[x > 4]), (Numbers{5, 6}));
  EXPECT_EQ(x[x > 9].shape(), (Shape{0}));
  EXPECT_EQ(values(x[1]), (Numbers{3, 4}));  // a number is one position
  EXPECT_THROW(x[Tensor::from({3})], DataError);
  EXPECT_THROW(x[Variable(Tensor::from({1.f}))], DTypeError);
  EXPECT_THROW(x[Variable(ones({2})) > 0], ShapeError);
}

}  // namespace
}  // namespace binade
