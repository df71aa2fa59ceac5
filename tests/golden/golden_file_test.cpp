#include "tests/golden/golden_file.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace binade::golden {
namespace {

constexpr const char* kGood = R"(# a comment

case add.row
op add
param axis 1
param sizes 2,3
param scale 0.5
param keep true
tensor in.a f32 2,3 : 0.1 -2 inf -inf nan 1e-05
tensor out.y f64 - : 3.25
tensor in.i i64 2 : -4 7
tensor in.m bool 2 : 0 1
tensor in.none f32 0,3 :
end
case second
op nothing
end
)";

std::string error_of(const std::string& text) {
  try {
    parse(text, "file");
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

TEST(GoldenFile, ReadsEveryKindOfLine) {
  const std::vector<Case> cases = parse(kGood, "file");
  ASSERT_EQ(cases.size(), 2u);
  const Case& c = cases[0];
  EXPECT_EQ(c.name, "add.row");
  EXPECT_EQ(c.op, "add");
  EXPECT_EQ(c.integer("axis"), 1);
  EXPECT_EQ(c.integers("sizes"), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(c.number("scale"), 0.5);
  EXPECT_TRUE(c.flag("keep"));
  const Tensor a = c.array("in.a").tensor();
  EXPECT_EQ(a.dtype(), DType::f32);
  EXPECT_EQ(a.shape(), (Shape{2, 3}));
  EXPECT_EQ(a.data<float>()[0], 0.1f);
  EXPECT_EQ(a.data<float>()[3], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(a.data<float>()[4] != a.data<float>()[4]);
  EXPECT_EQ(c.array("out.y").shape().rank(), 0);
  EXPECT_EQ(c.array("out.y").tensor(DType::f32).item(), 3.25);
  EXPECT_EQ(c.array("in.i").tensor().data<std::int64_t>()[0], -4);
  EXPECT_TRUE(c.array("in.m").tensor().data<bool>()[1]);
  EXPECT_EQ(c.array("in.none").shape().numel(), 0);
}

TEST(GoldenFile, NamesTheLineOfAnError) {
  EXPECT_EQ(error_of("case a\nop b\ntensor in.x f32 2,2 : 1 2 3\nend\n"), "file:3: shape (2, 2) wants 4 values, got 3");
  EXPECT_EQ(error_of("case a\nop b\ntensor in.x f32 1 : 1x\nend\n"), "file:3: '1x' is not a number");
  EXPECT_EQ(error_of("case a\nop b\ntensor in.x i64 1 : 1.5\nend\n"), "file:3: '1.5' is not an integer");
  EXPECT_EQ(error_of("case a\nop b\ntensor in.x bool 1 : 2\nend\n"), "file:3: '2' is not 0 or 1");
  EXPECT_EQ(error_of("case a\nop b\ntensor in.x f8 1 : 2\nend\n"),
            "file:3: 'f8' is not f32, f16, bf16, f64, i64, i32, u8 or bool");
  EXPECT_EQ(error_of("case a\nop b\ntensor in.x u8 1 : 256\nend\n"), "file:3: '256' is not in 0 … 255");
  EXPECT_EQ(error_of("case a\nop b\ntensor in.x f32 1 2\nend\n"), "file:3: wanted 'tensor ROLE DTYPE DIMS : values'");
  EXPECT_EQ(error_of("case a\nop b\nshape 3\nend\n"), "file:3: unknown word 'shape'");
  EXPECT_EQ(error_of("case a\nop b\nop c\nend\n"), "file:3: a second 'op c' in case a");
  EXPECT_EQ(error_of("case a\nend\n"), "file:2: case a has no op");
  EXPECT_EQ(error_of("case a\nop b\nend\ncase a\nop b\nend\n"), "file:4: a second case a");
  EXPECT_EQ(error_of("case a\nop b\n"), "file: case a has no end");
  EXPECT_EQ(error_of("op b\n"), "file:1: 'op' outside a case");
  EXPECT_EQ(error_of(""), "file: no case in it");
}

TEST(GoldenFile, NamesTheEntryThatACaseLacks) {
  const Case c = parse(kGood, "file")[1];
  EXPECT_THROW(c.array("in.x"), std::runtime_error);
  EXPECT_THROW(c.text("axis"), std::runtime_error);
  EXPECT_THROW(read("no/such/file.txt"), std::runtime_error);
}

TEST(GoldenFile, DifferenceIsEmptyOnlyWithinTheTolerance) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Array want{DType::f64, {4}, {1.0, -100.0, inf, nan}};
  const auto with = [&](double a, double b, double c, double d) {
    return difference(Tensor::from(std::vector<double>{a, b, c, d}, {4}), want, {.rtol = 1e-5, .share = 1e-7});
  };
  EXPECT_EQ(with(1, -100, inf, nan), "");
  EXPECT_EQ(with(1.000015, -100.0009, inf, nan), "");
  EXPECT_NE(with(1.00003, -100, inf, nan), "");
  EXPECT_NE(with(1, -100.002, inf, nan), "");
  EXPECT_NE(with(nan, -100, inf, nan), "");
  EXPECT_NE(with(1, -100, -inf, nan), "");
  EXPECT_NE(with(1, -100, 3, nan), "");
  EXPECT_NE(with(inf, -100, inf, nan), "");
  EXPECT_NE(with(1, -100, inf, 0), "");
  EXPECT_NE(difference(Tensor::zeros({2, 2}), want, {}), "");
  EXPECT_NE(difference(Tensor::full({1}, 1e-30), {DType::f64, {1}, {0.0}}, {}), "") << "an exact zero allows nothing";
  EXPECT_EQ(difference(Tensor::full({1}, -5e-14), {DType::f64, {1}, {1e-17}}, {}), "") << "rounding error of a zero";
  EXPECT_NE(difference(Tensor::full({1}, -5e-13), {DType::f64, {1}, {1e-17}}, {}), "");
}

TEST(GoldenFile, EveryFileInTheFolderReads) {
  for (const char* name : {"elementwise", "reductions", "products", "convolutions", "pooling", "norms", "attention",
                           "shapes", "losses", "recurrent"})
    EXPECT_GE(read(folder() + "/ops." + name + ".txt").size(), 10u) << name;
  EXPECT_EQ(read(folder() + "/traces.txt").size(), 2u);
}

}  // namespace
}  // namespace binade::golden
