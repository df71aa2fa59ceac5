#include "tests/golden/op_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "binade/core/error.h"
#include "binade/core/runtime.h"

namespace binade::golden {
namespace {

std::string after(const std::string& role, const std::string& prefix) {
  return role.starts_with(prefix) ? role.substr(prefix.size()) : "";
}

void run_case(const Case& golden, const Function& function, DType dtype, const Tolerance& tolerance) {
  SCOPED_TRACE(golden.name + " in " + std::string(name_of(dtype)));
  const Inputs inputs(golden, dtype);
  const Outputs outputs = function(golden, inputs);

  std::vector<std::pair<Variable, Tensor>> cotangents;
  for (const auto& [role, want] : golden.arrays) {
    if (const std::string name = after(role, "out."); !name.empty()) {
      ASSERT_TRUE(outputs.contains(name)) << role;
      EXPECT_EQ(difference(outputs.at(name).value(), want, tolerance), "") << role;
    } else if (const std::string of = after(role, "gout."); !of.empty()) {
      cotangents.emplace_back(outputs.at(of), want.tensor(outputs.at(of).dtype()));
    }
  }
  for (std::size_t i = 0; i < cotangents.size(); ++i)
    backward(cotangents[i].first, cotangents[i].second, {.retain_graph = i + 1 < cotangents.size()});
  for (const auto& [role, want] : golden.arrays) {
    const std::string name = after(role, "gin.");
    if (name.empty()) continue;
    ASSERT_TRUE(inputs[name].grad().defined()) << role;
    EXPECT_EQ(difference(inputs[name].grad(), want, tolerance), "") << role;
  }
}

}  // namespace

Inputs::Inputs(const Case& golden, DType dtype) {
  for (const auto& [role, array] : golden.arrays) {
    const std::string name = after(role, "in.");
    if (name.empty()) continue;
    const bool floating = is_floating(array.dtype);
    variables_.emplace(name, Variable(array.tensor(floating ? dtype : array.dtype), golden.has("gin." + name)));
  }
}

Variable Inputs::operator[](const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? Variable() : found->second;
}

void check_family(const std::string& family, const std::map<std::string, Function>& functions, const Tolerance& f64,
                  const Tolerance& f32) {
  const Runtime runtime;
  std::set<std::string> met;
  for (const Case& golden : read(folder() + "/ops." + family + ".txt")) {
    const auto found = functions.find(golden.op);
    ASSERT_NE(found, functions.end()) << "no function for op " << golden.op;
    met.insert(golden.op);
    for (const DType dtype : {DType::f32, DType::f64}) {
      try {
        run_case(golden, found->second, dtype, dtype == DType::f64 ? f64 : f32);
      } catch (const Error& e) {
        ADD_FAILURE() << golden.name << " in " << name_of(dtype) << ": " << e.what();
      }
    }
  }
  EXPECT_EQ(met.size(), functions.size()) << "a function without a case";
}

}  // namespace binade::golden
