#include <algorithm>

#include "binade/io/onnx/reading/model_state.h"

/// Older versions of operators.
namespace binade::onnx {
namespace {

using Integers = std::vector<std::int64_t>;

/// A node while it is converted to the newest version of its operator.
struct Older {
  std::string op{};
  std::map<std::string, Attribute> attributes{};
  std::vector<Variable> inputs{};

  bool given(const std::string& key) const { return attributes.contains(key); }
  Variable take_integers(const std::string& key) {
    const auto* values = std::get_if<Integers>(&attributes.at(key));
    unsupported_if(values == nullptr, "attribute " + key + ": wanted whole numbers");
    const Variable tensor = Tensor::from(*values, Shape{static_cast<std::int64_t>(values->size())});
    attributes.erase(key);
    return tensor;
  }
  double take_number(const std::string& key) {
    const Attribute value = attributes.at(key);
    attributes.erase(key);
    if (const auto* whole = std::get_if<std::int64_t>(&value)) return static_cast<double>(*whole);
    const auto* number = std::get_if<double>(&value);
    unsupported_if(number == nullptr, "attribute " + key + ": wanted a number");
    return *number;
  }
  void set_input(std::size_t i, const Variable& x) {
    if (inputs.size() <= i) inputs.resize(i + 1);
    inputs[i] = x;
  }
  /// Moves an attribute with whole numbers to input i.
  void integers_to_input(const std::string& key, std::size_t i) {
    if (given(key)) set_input(i, take_integers(key));
  }
};

void slice(Older& n) {
  unsupported_if(!n.given("starts") || !n.given("ends"), "attributes starts and ends are missing");
  n.integers_to_input("starts", 1);
  n.integers_to_input("ends", 2);
  n.integers_to_input("axes", 3);
}

void pad(Older& n) {
  n.integers_to_input("pads", 1);
  n.integers_to_input("paddings", 1);
  if (n.given("value")) n.set_input(2, Tensor::scalar(n.take_number("value")));
}

void clip(Older& n) {
  unsupported_if(n.inputs.empty() || !n.inputs[0].defined(), "input 0 is missing");
  const DType dtype = n.inputs[0].dtype();
  if (n.given("min")) n.set_input(1, Tensor::scalar(n.take_number("min"), dtype));
  if (n.given("max")) n.set_input(2, Tensor::scalar(n.take_number("max"), dtype));
}

/// Resizes by scales. Positions have no offset ("asymmetric").
void resize(Older& n) {
  if (n.given("scales")) {
    const auto* values = std::get_if<std::vector<double>>(&n.attributes.at("scales"));
    unsupported_if(values == nullptr, "attribute scales: wanted numbers");
    std::vector<float> scales(values->begin(), values->end());
    n.attributes.erase("scales");
    n.set_input(1, Tensor::from(scales, Shape{static_cast<std::int64_t>(scales.size())}));
  }
  unsupported_if(n.inputs.size() < 2, "scales are missing");
  n.op = "Resize";
  n.inputs = {n.inputs[0], Variable(), n.inputs[1]};
  n.attributes["coordinate_transformation_mode"] = std::string("asymmetric");
  n.attributes["nearest_mode"] = std::string("floor");
}

void top_k(Older& n) {
  if (!n.given("k")) return;
  const auto k = static_cast<std::int64_t>(n.take_number("k"));
  n.set_input(1, Tensor::from(Integers{k}, Shape{1}));
}

/// The extents of x as a matrix: the product of the extents before an axis, and of those from the axis on.
Integers as_matrix(const Variable& x, std::int64_t axis) {
  const int rank = rank_of(x), first = axis == rank ? rank : from_start(axis, rank);
  Integers dims{1, 1};
  for (int i = 0; i < rank; ++i) dims[i < first ? 0 : 1] *= x.dim(i);
  return dims;
}

/// Before opset 13, softmaxes were over all axes from `axis` (default 1) on.
Outputs softmax_of_rows(Older n, const std::string& name) {
  unsupported_if(n.inputs.empty() || !n.inputs[0].defined(), "input 0 is missing");
  const Variable x = n.inputs[0];
  std::int64_t axis = 1;
  if (n.given("axis")) axis = static_cast<std::int64_t>(n.take_number("axis"));
  const Integers rows = as_matrix(x, axis < 0 ? axis + rank_of(x) : axis), dims = dims_of(x);
  n.inputs = {reshape(x, rows)};
  n.attributes["axis"] = std::int64_t{-1};
  Outputs y = run(Node(name, n.op, n.inputs, n.attributes, 1));
  return {reshape(y[0], dims)};
}

/// Before opset 21, scale and bias of a group norm had one number per group.
void group_norm(Older& n) {
  unsupported_if(n.inputs.size() < 3, "inputs are missing");
  const std::int64_t channels = n.inputs[0].dim(1), groups = n.inputs[1].value().numel();
  unsupported_if(groups < 1 || channels % groups != 0, "the number of channels is no multiple of that of scales");
  for (std::size_t i : {1U, 2U}) n.inputs[i] = repeat_interleave(n.inputs[i], channels / groups, 0);
}

}  // namespace

Outputs run_of_version(const Step& step, std::vector<Variable> inputs, std::int64_t opset) {
  Older n{step.op, step.attributes, std::move(inputs)};
  if (opset < 10 && n.op == "Slice") slice(n);
  if (opset < 11 && n.op == "Pad") pad(n);
  if (opset < 11 && n.op == "Clip") clip(n);
  if ((opset < 11 && n.op == "Resize") || n.op == "Upsample") resize(n);
  if (opset < 10 && n.op == "TopK") top_k(n);
  if (opset < 20 && n.op == "DFT" && !n.given("axis")) n.attributes["axis"] = std::int64_t{1};
  if (opset < 13 && n.op == "Split") n.integers_to_input("split", 1);
  if (opset < 21 && n.op == "GroupNormalization") group_norm(n);
  if (opset < 14 && n.op == "BatchNormalization" && step.outputs.size() > 1)
    unsupported("a batch norm in training, in the form before opset 14");
  if (opset < 13 && (n.op == "Softmax" || n.op == "LogSoftmax" || n.op == "Hardmax"))
    return softmax_of_rows(std::move(n), step.name);
  return run(Node(step.name, n.op, std::move(n.inputs), std::move(n.attributes),
                  static_cast<std::int64_t>(step.outputs.size())));
}

}  // namespace binade::onnx
