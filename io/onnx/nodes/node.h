#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "binade/autograd/functions.h"
#include "binade/core/make.h"

/// Runs nodes of ONNX graphs (https://onnx.ai/onnx/operators) with Binade's public functions: the table maps operators
/// to functions. Imported models (io/onnx/import.h) and ONNX's own node tests (tests/onnx/) use it.
namespace binade::onnx {

/// Thrown for a node that Binade's functions cannot express; the text names what they lack.
struct UnsupportedNode : std::runtime_error {
  using runtime_error::runtime_error;
};
[[noreturn]] inline void unsupported(const std::string& why) { throw UnsupportedNode(why); }
inline void unsupported_if(bool condition, const std::string& why) {
  if (condition) unsupported(why);
}

/// The value of an attribute. A dtype is stored as its name ("f32").
using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>, Variable>;

/// One node: inputs by position, attributes by name; the caller gives ONNX's defaults.
class Node {
 public:
  /// An omitted input is undefined. `outputs`: the number of outputs.
  Node(std::string name, std::string op, std::vector<Variable> inputs, std::map<std::string, Attribute> attributes,
       std::int64_t outputs);

  const std::string& name() const { return name_; }
  const std::string& op() const { return op_; }
  int inputs() const { return static_cast<int>(inputs_.size()); }  ///< number of inputs up to the last given one
  std::int64_t outputs() const { return outputs_; }
  bool has(int i) const { return i < inputs() && inputs_[static_cast<std::size_t>(i)].defined(); }
  /// Input i; undefined if it is omitted.
  Variable operator[](int i) const { return has(i) ? inputs_[static_cast<std::size_t>(i)] : Variable(); }
  const std::vector<Variable>& all() const { return inputs_; }
  /// Reads input i, one or more whole numbers, on the host.
  std::vector<std::int64_t> list(int i) const;
  /// Reads input i, one whole number, on the host.
  std::int64_t whole(int i) const;

  // These return `fallback` if the attribute is missing, and throw UnsupportedNode if it has another type.
  bool given(const std::string& key) const { return attributes_.contains(key); }
  std::int64_t integer(const std::string& key, std::int64_t fallback) const;
  double number(const std::string& key, double fallback) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  std::vector<std::int64_t> integers(const std::string& key, const std::vector<std::int64_t>& fallback = {}) const;
  std::vector<double> numbers(const std::string& key) const;
  std::vector<std::string> texts(const std::string& key) const;
  DType dtype(const std::string& key, DType fallback) const;
  /// A tensor among the attributes; undefined if it is omitted.
  Variable tensor(const std::string& key) const;

 private:
  std::string name_, op_;
  std::vector<Variable> inputs_;
  std::map<std::string, Attribute> attributes_;
  std::int64_t outputs_ = 1;
};

/// The outputs of a node, by position.
using Outputs = std::vector<Variable>;
using Function = std::function<Outputs(const Node&)>;
using Table = std::map<std::string, Function>;

Table elementwise_nodes();
Table reduction_nodes();
Table shape_nodes();
Table index_nodes();
Table product_nodes();
Table image_nodes();
Table norm_nodes();
Table sequence_nodes();
Table random_nodes();
Table signal_nodes();

/// Returns the functions of all families by operator.
const Table& table();
/// Runs a node. Throws UnsupportedNode, also for an operator that is not in the table.
Outputs run(const Node& node);

/// Images, sequences and volumes are (N, C, …) in ONNX and (N, …, C) in Binade, filters (K, C, …) and (K, …, C).
inline Variable channels_last(const Variable& x) { return movedim(x, {1}, {-1}); }
inline Variable channels_first(const Variable& x) { return movedim(x, {-1}, {1}); }
/// Returns y in the dtype of x, which ONNX requires of most results.
inline Variable like(const Variable& x, const Variable& y) { return cast(y, x.dtype()); }
/// Returns `axis` counted from the start. Throws UnsupportedNode if there is no such axis.
inline int from_start(std::int64_t axis, int rank) {
  unsupported_if(axis < -rank || axis >= rank, "axis " + std::to_string(axis) + " of " + std::to_string(rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}
/// Throws UnsupportedNode unless a list has `wanted` numbers.
inline void check_count(const char* what, std::size_t got, std::size_t wanted) {
  unsupported_if(got != wanted,
                 std::string(what) + ": wanted " + std::to_string(wanted) + " numbers, got " + std::to_string(got));
}
inline std::vector<int> as_axes(const std::vector<std::int64_t>& axes) { return {axes.begin(), axes.end()}; }
inline std::vector<std::int64_t> dims_of(const Variable& x) {
  const auto dims = x.shape().dims();
  return {dims.begin(), dims.end()};
}
inline int rank_of(const Variable& x) { return x.shape().rank(); }
/// Makes a Function from a function with one result.
inline Function one(std::function<Variable(const Node&)> f) {
  return [f](const Node& n) -> Outputs { return {f(n)}; };
}

}  // namespace binade::onnx
