#include "tests/onnx/node.h"

#include <algorithm>

namespace binade::onnx {

Node::Node(const golden::Case& source) : case_(source) {
  for (const auto& [role, array] : source.arrays)
    if (role.starts_with("in.")) inputs_ = std::max(inputs_, std::stoi(role.substr(3)) + 1);
}

Variable Node::operator[](int i) const {
  return has(i) ? Variable(case_.array("in." + std::to_string(i)).tensor()) : Variable();
}

std::vector<Variable> Node::all() const {
  std::vector<Variable> inputs;
  for (int i = 0; i < inputs_; ++i) inputs.push_back((*this)[i]);
  return inputs;
}

std::int64_t Node::integer(const std::string& key, std::int64_t fallback) const {
  return given(key) ? case_.integer(key) : fallback;
}

double Node::number(const std::string& key, double fallback) const { return given(key) ? case_.number(key) : fallback; }

std::string Node::text(const std::string& key, const std::string& fallback) const {
  return given(key) ? case_.text(key) : fallback;
}

std::vector<std::int64_t> Node::integers(const std::string& key, const std::vector<std::int64_t>& fallback) const {
  return given(key) ? case_.integers(key) : fallback;
}

DType Node::dtype(const std::string& key, DType fallback) const {
  if (!given(key)) return fallback;
  const std::string word = case_.text(key);
  for (const DType d :
       {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64, DType::i32, DType::u8, DType::boolean})
    if (word == name_of(d)) return d;
  cannot("no dtype " + word);
}

Variable Node::tensor(const std::string& key) const {
  const std::string role = "attr." + key;
  return case_.has(role) ? Variable(case_.array(role).tensor()) : Variable();
}

namespace {

/// The table with the first output in the dtype of the first input, if both are floating: products, norms and losses of
/// 16-bit tensors are f32 without a precision policy, and a user casts them.
Table in_dtype_of_input(Table family) {
  for (auto& [name, function] : family)
    function = [inner = function](const Node& n) {
      Outputs outputs = inner(n);
      if (n.has(0) && is_floating(n[0].dtype()) && is_floating(outputs[0].dtype())) outputs[0] = like(n[0], outputs[0]);
      return outputs;
    };
  return family;
}

}  // namespace

const Table& table() {
  static const Table all = [] {
    Table joined;
    for (const Table& family : {elementwise_nodes(), reduction_nodes(), shape_nodes(), index_nodes(),
                                in_dtype_of_input(product_nodes()), in_dtype_of_input(image_nodes()),
                                in_dtype_of_input(norm_nodes()), in_dtype_of_input(sequence_nodes()), random_nodes()})
      joined.insert(family.begin(), family.end());
    return joined;
  }();
  return all;
}

Outputs run(const Node& node) {
  const auto found = table().find(node.op());
  cannot_if(found == table().end(), "no function");
  return found->second(node);
}

}  // namespace binade::onnx
