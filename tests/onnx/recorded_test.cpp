#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/onnx/golden_node.h"

/// Cases of ONNX's node tests that run_nodes.py recorded, so that the table is tested without the package `onnx`.
namespace binade::onnx {
namespace {

const std::vector<golden::Case>& recorded() {
  static const std::vector<golden::Case> cases = golden::read(golden::folder() + "/onnx.nodes.txt");
  return cases;
}

/// f32: 1e-5, plus 1e-6 of the largest value, because the sums have at most a few hundred terms. A 16-bit result is
/// rounded once, to 8 or 11 bits.
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
    ASSERT_NO_THROW(outputs = run(node_of(source)));
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

/// docs/onnx-nodes.md has rows "| operator | cases | said | passed | …".
TEST(OnnxNodes, ThePageCountsWhatTheTableHas) {
  const char* root = std::getenv("BINADE_SOURCE_DIR");
  ASSERT_NE(root, nullptr) << "run this test with `./dev test onnx`";
  std::ifstream page(std::string(root) + "/docs/onnx-nodes.md");
  std::set<std::string> said, rows;
  for (std::string line; std::getline(page, line);) {
    std::istringstream words(line);
    std::string bar, name;
    int cases = 0, sayable = 0, passed = 0;
    if (!(words >> bar >> name >> bar >> cases >> bar >> sayable >> bar >> passed)) continue;
    rows.insert(name);
    EXPECT_EQ(sayable, passed) << name;
    if (passed > 0) said.insert(name);
  }
  ASSERT_GT(said.size(), 150U) << "run ./dev onnx-nodes";
  for (const std::string& name : said) EXPECT_TRUE(table().contains(name)) << name << ": run ./dev onnx-nodes";
  for (const auto& [name, function] : table())
    EXPECT_TRUE(rows.contains(name) || name == "Scatter") << name << " has no row: run ./dev onnx-nodes";
}

TEST(OnnxNodes, ANodeThatCannotBeSaidNamesWhatIsMissing) {
  const auto reason = [](const std::string& text) -> std::string {
    const std::vector<golden::Case> cases = golden::parse(text, "text");
    try {
      run(node_of(cases[0]));
    } catch (const UnsupportedNode& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(reason("case a\nop DeformConv\nparam outputs 1\nend\n"), "no function");
  EXPECT_EQ(reason("case a\nop Cast\nparam outputs 1\nparam to i8\ntensor in.0 f32 1 : 1\nend\n"), "no dtype i8");
}

}  // namespace
}  // namespace binade::onnx
