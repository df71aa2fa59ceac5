#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "binade/autograd/observer.h"
#include "binade/io/onnx/writing/graph.h"

namespace binade::onnx {

/// Thrown for an op that the exporter cannot express; the text says what is missing.
struct NoCounterpart : std::runtime_error {
  using runtime_error::runtime_error;
};
[[noreturn]] inline void no_counterpart(const std::string& why) { throw NoCounterpart(why); }
inline void no_counterpart_if(bool condition, const std::string& why) {
  if (condition) no_counterpart(why);
}

/// The names of the graph's values that hold a recorded tensor: in row-major order and, for an image (N, H, W, C), in
/// the order (N, C, H, W). A name is empty if no node computes this order yet.
struct RecordedValue {
  std::string rows{}, channels_first{};
};

/// Observes the ops of a forward pass and writes a graph. Tensors are identified by the address of their memory, so the
/// recorder keeps all of them alive.
class Recorder final : public TapeObserver {
 public:
  /// `weights`: the names of parameters and buffers by the address of their memory.
  explicit Recorder(const std::map<const void*, std::string>& weights) : weights_(weights) {}

  void input(const std::string& name, const Tensor& x);
  void output(const std::string& name, const Tensor& x);
  /// Returns a name that no value of the graph has, and reserves it: `stem`, else `stem_1`, `stem_2`, …
  std::string fresh(const std::string& stem);
  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;
  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs, const Observation&) override;
  Graph take() { return std::move(graph_); }

 private:
  friend class Call;
  /// The address, dtype, extents and pitch of a tensor.
  using Key = std::pair<const void*, Integers>;
  static Key key_of(const Tensor& x);
  RecordedValue* find(const Tensor& x);
  /// Returns the name of the constant that has the values of x; adds the constant if it is new.
  const std::string& constant(const Tensor& x);
  std::string add_constant(const std::string& name, const Tensor& x, bool weight);

  const std::map<const void*, std::string>& weights_;
  Graph graph_;
  std::map<Key, RecordedValue> values_;
  std::map<Key, std::string> constants_;       // names of constants
  std::map<const void*, std::string> copies_;  // names of weights by the address of a rounded copy
  std::map<std::pair<std::string, std::string>, std::string> made_;  // results of Cast and Transpose nodes
  std::set<std::string> taken_;                                      // names of values
  std::map<std::string, int> counts_;  // the last number that fresh() appended to each stem
  std::vector<Tensor> alive_;
};

/// One op call, for the function that writes its nodes. Floating numbers are computed in f32 (f64 if an operand or the
/// result is f64) whatever their stored dtype, as Binade's kernels do; nodes `Cast` read and round 16-bit values.
class Call {
 public:
  Call(Recorder& recorder, const OpCall& call, std::span<const Tensor> read, const Tensors& outputs);

  template <class Op>
  const typename Op::Params& params() const {
    return *static_cast<const typename Op::Params*>(call_.params);
  }
  int inputs() const { return static_cast<int>(read_.size()); }
  bool has(int i) const { return i < inputs() && read_[static_cast<std::size_t>(i)].defined(); }
  const Tensor& in(int i) const { return read_[static_cast<std::size_t>(i)]; }
  const Tensor& out(int i = 0) const { return outputs_[static_cast<std::size_t>(i)]; }
  int results() const { return static_cast<int>(outputs_.size()); }
  /// Returns the names of the values of input i; null for a constant.
  const RecordedValue* value(int i) const { return recorder_.find(in(i)); }
  bool is_constant(int i) const { return recorder_.find(in(i)) == nullptr; }
  DType computing() const { return computing_; }  ///< f32 or f64, or i64 if no operand or result is floating

  // Names of operands.

  std::string stored(int i);                               ///< input i in its own dtype
  std::string number(int i) { return as(i, computing_); }  ///< input i in the computing dtype
  std::string as(int i, DType dtype);                      ///< input i cast to a dtype
  /// Input i (N, H, W, C) as (N, C, H, W) in the computing dtype.
  std::string channels_first(int i);
  /// Input i with its axes in the order `perm`, such as a weight (K, H, W, C) as (K, C, H, W).
  std::string transposed(int i, const Integers& perm);
  /// True if an elementwise op should be computed in the order (N, C, H, W): an operand exists only in this order, and
  /// all others can be converted to it.
  bool prefers_channels_first();
  /// True if input i, an image, exists only as (N, C, H, W).
  bool only_channels_first(int i) const;
  /// An operand of an elementwise op in the order that prefers_channels_first() chose.
  std::string operand(int i, bool first) { return operand(i, first, computing_); }
  std::string operand(int i, bool first, DType dtype);

  // Nodes and constants.

  std::string node(const std::string& op, std::vector<std::string> inputs, WrittenAttributes attributes = {});
  std::vector<std::string> node(int outputs, const std::string& op, std::vector<std::string> inputs,
                                WrittenAttributes attributes = {});
  std::string scalar(double value) { return scalar(value, computing_); }
  std::string scalar(double value, DType dtype);
  std::string list(const Integers& values);  ///< i64
  std::string tensor(const Tensor& value);
  /// Adds a weight that was computed from others.
  std::string weight(const std::string& name, const Tensor& value);
  /// Returns the name of the weight if input i is one, otherwise an empty text.
  std::string weight_name(int i) const;
  std::string cast(const std::string& x, DType from, DType to);

  // Results. `first`: the value is in the order (N, C, H, W).

  void result(int k, const std::string& x, bool first = false) { result_as(k, x, computing_, first); }
  void result_as(int k, const std::string& x, DType dtype, bool first = false);
  /// Sets the names of the values of result k, in one or both orders. The values have the dtype of the tensor.
  void set(int k, RecordedValue value) { recorder_.values_[Recorder::key_of(out(k))] = std::move(value); }
  /// Records that the results from number `first` on have no counterpart in ONNX.
  void problem(const std::string& why, int first = 0);

 private:
  std::string rows(int i);  // the value of input i in row-major order

  Recorder& recorder_;
  const OpCall& call_;
  std::span<const Tensor> read_;
  const Tensors& outputs_;
  DType computing_ = DType::i64;
  std::string origin_, stem_;
};

/// Writes the nodes of an op.
using OpWriter = std::function<void(Call&)>;
/// The writers of ops, by the address of Op::info, because a user's op may have the name of one of Binade's.
using OpWriters = std::map<const OpInfo*, OpWriter>;
/// Returns the writers of all ops that have a counterpart in ONNX.
const OpWriters& op_writers();
OpWriters elementwise_writers();
OpWriters activation_writers();
OpWriters truth_writers();
OpWriters reduction_writers();
OpWriters shape_writers();
OpWriters product_writers();
OpWriters image_writers();
OpWriters norm_writers();
OpWriters sequence_writers();

/// Returns ONNX's number of a dtype (TensorProto.DataType).
std::int64_t data_type_of(DType dtype);

}  // namespace binade::onnx
