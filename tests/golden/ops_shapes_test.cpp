#include <gtest/gtest.h>

#include <vector>

#include "binade/autograd/functions/embedding.h"
#include "binade/autograd/functions/shape.h"
#include "tests/golden/op_case.h"

namespace binade::golden {
namespace {

Outputs run_concat(const Case& c, const Inputs& in) {
  std::vector<Variable> parts;
  for (const auto& [name, part] : in.all()) parts.push_back(part);
  return {{"y", concat(parts, static_cast<int>(c.integer("axis")))}};
}

Outputs run_transpose(const Case& c, const Inputs& in) {
  const std::vector<std::int64_t> order = c.integers("order");
  return {{"y", permute(in["x"], std::vector<int>(order.begin(), order.end()))}};
}

TEST(GoldenOps, DataMovementMatchesPyTorch) {
  check_family(
      "shapes",
      {
          {"embedding",
           [](const Case&, const Inputs& in) -> Outputs {
             return {{"y", embedding(in["w"], in["indices"])}};
           }},
          {"concat", run_concat},
          {"slice",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", slice(in["x"], static_cast<int>(c.integer("axis")), c.integer("begin"), c.integer("end"))}};
           }},
          {"reshape",
           [](const Case& c, const Inputs& in) -> Outputs {
             return {{"y", reshape(in["x"], c.integers("shape"))}};
           }},
          {"transpose", run_transpose},
      });
}

}  // namespace
}  // namespace binade::golden
