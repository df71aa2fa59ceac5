#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "binade/io/onnx/import.h"
#include "binade/io/onnx/nodes/node.h"

namespace binade::onnx {

/// A node of an imported graph. A value is identified by its place among all values; -1: omitted.
struct Step {
  std::string name{}, op{};
  std::map<std::string, Attribute> attributes{};
  std::vector<int> inputs{}, outputs{};
  std::vector<int> released{};  ///< values that no later node reads
};

struct Model::State {
  std::string path{}, producer{};
  std::int64_t opset = 0;
  std::vector<ModelValue> inputs{}, outputs{};
  std::vector<int> input_places{}, output_places{};
  std::vector<Step> steps{};
  int values = 0;

  /// A parameter or buffer and the place of its value.
  template <class T>
  struct Named {
    std::string name{};
    int place = 0;
    T value{};
  };
  std::vector<Named<nn::Parameter>> parameters{};
  std::vector<Named<nn::Buffer>> buffers{};
  std::vector<Named<Variable>> constants{};

  /// Runs one node. Throws ArgumentError that names it if Binade's functions cannot express it.
  std::vector<Variable> run(const Step& step, const std::vector<Variable>& values) const;
  /// The text that names a node: "node \"fc/Gemm\" (Gemm, opset 17)".
  std::string described(const Step& step) const;
};

/// Runs a node of any version of its operator. Converts older versions to the form that the table of operators expects:
/// attributes that became inputs, and formulas that changed. `inputs` are those of the node. Throws UnsupportedNode.
Outputs run_of_version(const Step& step, std::vector<Variable> inputs, std::int64_t opset);

/// True for an operator that an imported graph may have.
bool is_importable(const std::string& op);

}  // namespace binade::onnx
