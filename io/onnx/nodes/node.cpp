#include "binade/io/onnx/nodes/node.h"

#include <fmt/format.h>

#include <utility>

#include "binade/core/error.h"

namespace binade::onnx {

Node::Node(std::string name, std::string op, std::vector<Variable> inputs, std::map<std::string, Attribute> attributes,
           std::int64_t outputs)
    : name_(std::move(name)),
      op_(std::move(op)),
      inputs_(std::move(inputs)),
      attributes_(std::move(attributes)),
      outputs_(outputs) {
  while (!inputs_.empty() && !inputs_.back().defined()) inputs_.pop_back();
}

namespace {

/// Returns the attribute as a T; null if it is omitted.
template <class T>
const T* typed(const std::map<std::string, Attribute>& attributes, const std::string& key, const char* wanted) {
  const auto found = attributes.find(key);
  if (found == attributes.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  unsupported_if(value == nullptr, fmt::format("attribute {}: wanted {}", key, wanted));
  return value;
}

}  // namespace

std::vector<std::int64_t> Node::list(int i) const {
  unsupported_if(!has(i), fmt::format("input {} is missing", i));
  const Variable x = (*this)[i];
  check<DTypeError>(!is_floating(x.dtype()), "{}: wanted whole numbers for input {}, got {}", op_, i,
                    name_of(x.dtype()));
  return x.value().to_vector<std::int64_t>();
}

std::int64_t Node::whole(int i) const {
  const std::vector<std::int64_t> numbers = list(i);
  unsupported_if(numbers.size() != 1, fmt::format("input {}: wanted one number, got {}", i, numbers.size()));
  return numbers[0];
}

std::int64_t Node::integer(const std::string& key, std::int64_t fallback) const {
  const auto* value = typed<std::int64_t>(attributes_, key, "a whole number");
  return value != nullptr ? *value : fallback;
}

double Node::number(const std::string& key, double fallback) const {
  if (const auto found = attributes_.find(key); found != attributes_.end())
    if (const auto* whole = std::get_if<std::int64_t>(&found->second)) return static_cast<double>(*whole);
  const auto* value = typed<double>(attributes_, key, "a number");
  return value != nullptr ? *value : fallback;
}

std::string Node::text(const std::string& key, const std::string& fallback) const {
  const auto* value = typed<std::string>(attributes_, key, "a text");
  return value != nullptr ? *value : fallback;
}

std::vector<std::int64_t> Node::integers(const std::string& key, const std::vector<std::int64_t>& fallback) const {
  const auto* value = typed<std::vector<std::int64_t>>(attributes_, key, "whole numbers");
  return value != nullptr ? *value : fallback;
}

std::vector<double> Node::numbers(const std::string& key) const {
  const auto* value = typed<std::vector<double>>(attributes_, key, "numbers");
  return value != nullptr ? *value : std::vector<double>{};
}

std::vector<std::string> Node::texts(const std::string& key) const {
  const auto* value = typed<std::vector<std::string>>(attributes_, key, "texts");
  return value != nullptr ? *value : std::vector<std::string>{};
}

DType Node::dtype(const std::string& key, DType fallback) const {
  if (!given(key)) return fallback;
  const std::string word = text(key, "");
  for (const DType d :
       {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64, DType::i32, DType::u8, DType::boolean})
    if (word == name_of(d)) return d;
  unsupported("no dtype " + word);
}

Variable Node::tensor(const std::string& key) const {
  const auto* value = typed<Variable>(attributes_, key, "a tensor");
  return value != nullptr ? *value : Variable();
}

namespace {

/// Casts the first output of each function to the dtype of the first input, if both are floating. Without a precision
/// policy, Binade's products, norms and losses of 16-bit tensors are f32; ONNX keeps the dtype.
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
    for (const Table& family :
         {elementwise_nodes(), reduction_nodes(), shape_nodes(), index_nodes(), in_dtype_of_input(product_nodes()),
          in_dtype_of_input(image_nodes()), in_dtype_of_input(norm_nodes()), in_dtype_of_input(sequence_nodes()),
          random_nodes(), signal_nodes()})
      joined.insert(family.begin(), family.end());
    return joined;
  }();
  return all;
}

Outputs run(const Node& node) {
  const auto found = table().find(node.op());
  unsupported_if(found == table().end(), "no function");
  return found->second(node);
}

}  // namespace binade::onnx
