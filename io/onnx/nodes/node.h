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

/// Nodes of ONNX graphs (https://onnx.ai/onnx/operators), carried out with Binade's public functions: the table from
/// operators to functions. Imported models (io/onnx/import.h) and ONNX's own node tests (tests/onnx/) use it.
namespace binade::onnx {

/// Thrown for a node that Binade's functions cannot express; the text names what they lack.
struct CannotSay : std::runtime_error {
  using runtime_error::runtime_error;
};
[[noreturn]] inline void cannot(const std::string& why) { throw CannotSay(why); }
inline void cannot_if(bool condition, const std::string& why) {
  if (condition) cannot(why);
}

/// The value of an attribute. A dtype is the text of its name ("f32").
using Attribute = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>,
                               std::vector<std::string>, Variable>;

/// One node: inputs by position, attributes by name with ONNX's default.
class Node {
 public:
  /// `inputs`: undefined where one is omitted. `outputs`: their number.
  Node(std::string name, std::string op, std::vector<Variable> inputs, std::map<std::string, Attribute> attributes,
       std::int64_t outputs);

  const std::string& name() const { return name_; }
  const std::string& op() const { return op_; }
  int inputs() const { return static_cast<int>(inputs_.size()); }  ///< number up to the last one that is given
  std::int64_t outputs() const { return outputs_; }
  bool has(int i) const { return i < inputs() && inputs_[static_cast<std::size_t>(i)].defined(); }
  /// Input i; undefined if it is omitted.
  Variable operator[](int i) const { return has(i) ? inputs_[static_cast<std::size_t>(i)] : Variable(); }
  const std::vector<Variable>& all() const { return inputs_; }
  /// Input i, a vector or a number of whole numbers, read on the host.
  std::vector<std::int64_t> list(int i) const;
  /// Input i, one whole number, read on the host.
  std::int64_t whole(int i) const;

  // These return `fallback` without the attribute, and throw CannotSay if it has another type.
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

/// The nodes of all families by operator.
const Table& table();
/// Carries out a node. Throws CannotSay, also for an operator without an entry.
Outputs run(const Node& node);

/// Images, sequences and volumes are (N, C, …) in ONNX and (N, …, C) in Binade, filters (K, C, …) and (K, …, C).
inline Variable channels_last(const Variable& x) { return movedim(x, {1}, {-1}); }
inline Variable channels_first(const Variable& x) { return movedim(x, {-1}, {1}); }
/// y in the dtype of x, which ONNX demands of most results.
inline Variable like(const Variable& x, const Variable& y) { return cast(y, x.dtype()); }
/// `axis`, counted from the start. Throws CannotSay if there is no such axis.
inline int from_start(std::int64_t axis, int rank) {
  cannot_if(axis < -rank || axis >= rank, "axis " + std::to_string(axis) + " of " + std::to_string(rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}
/// Throws CannotSay unless a list has `wanted` numbers.
inline void check_count(const char* what, std::size_t got, std::size_t wanted) {
  cannot_if(got != wanted,
            std::string(what) + ": wanted " + std::to_string(wanted) + " numbers, got " + std::to_string(got));
}
inline std::vector<int> as_axes(const std::vector<std::int64_t>& axes) { return {axes.begin(), axes.end()}; }
inline std::vector<std::int64_t> dims_of(const Variable& x) {
  const auto dims = x.shape().dims();
  return {dims.begin(), dims.end()};
}
inline int rank_of(const Variable& x) { return x.shape().rank(); }
/// A vector or number as a function of one expression.
inline Function one(std::function<Variable(const Node&)> f) {
  return [f](const Node& n) -> Outputs { return {f(n)}; };
}

}  // namespace binade::onnx
