#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "binade/core/kernels/table.h"
#include "binade/core/precision.h"
#include "binade/core/step_context.h"
#include "tests/conformance/case.h"
#include "tests/tested_device.h"

namespace binade::conformance {
namespace {

/// Returns the names of all ops that core declares, read from its headers, so that an op without tests is detected.
std::set<std::string> declared_ops() {
  std::set<std::string> names;
  const std::regex name("OpInfo(?: info)?\\{\\s*\\.name = \"([a-z0-9_]+)\"");
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(std::getenv("BINADE_SOURCE_DIR")) / "core/ops")) {
    if (file.path().extension() != ".h" || file.path().filename() == "op.h") continue;  // op.h contains an example
    std::ifstream in(file.path());
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    for (std::sregex_iterator m(text.begin(), text.end(), name), end; m != end; ++m) names.insert((*m)[1]);
  }
  return names;
}

/// Runs a case in `dtype`. Returns the error text, or "" if it succeeds.
std::string try_in(const Case& c, DType dtype) {
  try {
    const PolicyScope scope(is_half(dtype) ? PrecisionPolicy{}.with("*", dtype) : PrecisionPolicy{});
    std::vector<Variable> inputs;
    for (std::size_t i = 0; i < c.inputs.size(); ++i)
      inputs.push_back(variable_of(
          in_dtype(c.inputs[i], c.is_read_in_halves(i) || dtype == DType::f64 ? dtype : DType::f32), false));
    c.run(inputs);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(Support, EveryOpRunsInEveryDTypeOnEveryDevice) {
  ASSERT_NE(std::getenv("BINADE_SOURCE_DIR"), nullptr) << "run it through `meson test`, or set this to the source tree";
  std::map<std::string, const Case*> first;
  for (const Case& c : all_cases()) first.emplace(c.info->name, &c);
  std::printf("%-18s %-5s %5s %5s %5s %5s\n", "op", "where", "f32", "f16", "bf16", "f64");
  for (const std::string& op : declared_ops()) {
    const auto found = first.find(op);
    std::printf("%-18s %-5s", op.c_str(), tested_device() == Device::cpu() ? "cpu" : "cuda");
    EXPECT_NE(found, first.end()) << op << " has no case in tests/conformance/: nothing holds it to its contract";
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
      const std::string reason = found == first.end() ? "no case" : try_in(*found->second, dtype);
      std::printf(" %5s", reason.empty() ? "yes" : "-");
      EXPECT_EQ(reason, "") << op << " in " << name_of(dtype);
    }
    std::printf("\n");
  }
}

TEST(Support, EveryOpHasAtLeastTwelveShapeClasses) {
  std::map<std::string, int> count;
  for (const Case& c : all_cases()) ++count[c.info->name];
  for (const auto& [op, n] : count) EXPECT_GE(n, 12) << op;
}

}  // namespace
}  // namespace binade::conformance
