#include <gtest/gtest.h>

#include <set>

#include "tests/onnx/node.h"

/// Cases of ONNX's node tests that run_nodes.py recorded, so that the table is tested without the package `onnx`.
namespace binade::onnx {
namespace {

const std::vector<golden::Case>& recorded() {
  static const std::vector<golden::Case> cases = golden::read(golden::folder() + "/onnx.nodes.txt");
  return cases;
}

/// f32: 10^-5 and 10^-6 of the largest value, because sums here have at most a few hundred terms; a result in 16 bits
/// is rounded once, to 8 or 11 bits.
golden::Tolerance tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return {.rtol = 2e-9, .share = 1e-11};
    case DType::f16: return {.rtol = 0x1p-10, .share = 1e-6};
    case DType::bf16: return {.rtol = 0x1p-7, .share = 1e-6};
    case DType::f32: return {};
    default: return {.rtol = 0, .share = 0};
  }
}

TEST(OnnxNodes, RecordedCasesHaveTheirOutputs) {
  for (const golden::Case& source : recorded()) {
    SCOPED_TRACE(source.name);
    Outputs outputs;
    ASSERT_NO_THROW(outputs = run(Node(source)));
    for (const auto& [role, want] : source.arrays) {
      if (!role.starts_with("out.")) continue;
      const auto i = static_cast<std::size_t>(std::stoi(role.substr(4)));
      ASSERT_LT(i, outputs.size());
      EXPECT_EQ(name_of(outputs[i].dtype()), name_of(want.dtype)) << role;
      EXPECT_EQ(golden::difference(outputs[i].value(), want, tolerance_of(want.dtype)), "") << role;
    }
  }
}

TEST(OnnxNodes, EveryOperatorOfTheTableIsRecorded) {
  std::set<std::string> operators;
  for (const golden::Case& source : recorded()) operators.insert(source.op);
  // Random numbers have no expected values; GRU and Scatter: see docs/onnx-nodes.md.
  const std::set<std::string> without{"Bernoulli",     "Multinomial", "RandomNormal", "RandomNormalLike",
                                      "RandomUniform", "GRU",         "Scatter",      "RandomUniformLike"};
  for (const auto& [name, function] : table())
    EXPECT_TRUE(operators.contains(name) || without.contains(name)) << name << " has no recorded case";
}

TEST(OnnxNodes, ANodeThatCannotBeSaidNamesWhatIsMissing) {
  const auto reason = [](const std::string& text) -> std::string {
    const std::vector<golden::Case> cases = golden::parse(text, "text");
    try {
      run(Node(cases[0]));
    } catch (const CannotSay& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(reason("case a\nop DeformConv\nparam outputs 1\nend\n"), "no function");
  EXPECT_EQ(reason("case a\nop Cast\nparam outputs 1\nparam to i8\ntensor in.0 f32 1 : 1\nend\n"), "no dtype i8");
}

}  // namespace
}  // namespace binade::onnx
