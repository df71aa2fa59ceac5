#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "binade/core/tensor.h"

/// The graph of an ONNX file during an export: nodes, constants, inputs and outputs, without protobuf.
namespace binade::onnx {

using Integers = std::vector<std::int64_t>;
/// An attribute of a node: a whole number, a number, a text, or a list of whole numbers or texts.
using WrittenAttribute = std::variant<std::int64_t, double, std::string, Integers, std::vector<std::string>>;
using WrittenAttributes = std::map<std::string, WrittenAttribute>;

/// A node. Values are identified by name; an empty name is an omitted input or output.
struct WrittenNode {
  std::string op{};
  std::vector<std::string> inputs{}, outputs{};
  WrittenAttributes attributes{};
  std::string origin{};   ///< op and module path on the tape: "conv2d [encoder.0]"
  std::string problem{};  ///< not empty: the op has no counterpart in ONNX, and the text says why
};

/// A constant. A weight becomes an initializer, and any other constant a node `Constant`, so that a reader can
/// recognize trained values.
struct WrittenConstant {
  std::string name{};
  Tensor value{};
  bool weight = false;
};

/// An input or an output of the graph. `dims` has the extents; a negative one stands for the batch size times its
/// magnitude.
struct WrittenValueInfo {
  std::string name{};
  DType dtype = DType::f32;
  Integers dims{};
};

struct Graph {
  std::vector<WrittenValueInfo> inputs{}, outputs{};
  std::vector<WrittenNode> nodes{};
  std::vector<WrittenConstant> constants{};

  WrittenConstant* constant(const std::string& name);
};

/// Removes the nodes and constants that no output depends on.
void remove_unused(Graph& graph);
/// Transposes a weight that only nodes `Transpose` with one permutation read, and removes these nodes.
void fold_transposed_weights(Graph& graph);
/// Throws ArgumentError that lists the ops without a counterpart in ONNX, each with its module path.
void check_no_problems(const Graph& graph);
/// Compares two recordings of one model, made from inputs with different values and, if `batch` differs from
/// `other_batch`, different numbers of samples. In `graph`, extents that are multiples of the number of samples become
/// functions of the batch size of the first input. Throws ArgumentError that names the op if the graphs differ in
/// anything else, because then the graph depends on the values of the inputs.
void merge(Graph& graph, const Graph& other, std::int64_t batch, std::int64_t other_batch);

/// Returns x with its axes in another order, as a contiguous tensor on the host.
Tensor permuted(const Tensor& x, const Integers& order);

}  // namespace binade::onnx
