#include "tests/onnx/golden_node.h"

#include <cstdlib>
#include <sstream>
#include <string_view>

namespace binade::onnx {
namespace {

bool is_whole(std::string_view word) {
  if (word.starts_with('-')) word.remove_prefix(1);
  return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_number(const std::string& word) {
  char* end = nullptr;
  std::strtod(word.c_str(), &end);
  return !word.empty() && end == word.c_str() + word.size();
}

/// The names of attributes whose value is a list, which golden text writes like a number if it has one element.
bool is_list(const std::string& key) {
  for (const char* name : {"axes", "dilations", "kernel_shape", "output_padding", "output_shape", "pads", "perm",
                           "shape", "split", "strides", "value_ints"})
    if (key == name) return true;
  return false;
}

/// "Tanh,Relu" as two texts.
std::vector<std::string> texts_of(const std::string& word) {
  std::vector<std::string> texts;
  std::istringstream parts(word);
  for (std::string part; std::getline(parts, part, ',');) texts.push_back(part);
  return texts;
}

Attribute attribute_of(const golden::Case& source, const std::string& key) {
  const std::string& word = source.text(key);
  if (is_list(key)) return source.integers(key);
  if (key == "activations") return texts_of(word);
  if (is_whole(word)) return source.integer(key);
  if (is_number(word)) return source.number(key);
  return word;
}

}  // namespace

Node node_of(const golden::Case& source) {
  std::vector<Variable> inputs;
  std::map<std::string, Attribute> attributes;
  for (const auto& [role, array] : source.arrays) {
    if (role.starts_with("attr.")) attributes[role.substr(5)] = Variable(array.tensor());
    if (!role.starts_with("in.")) continue;
    const auto i = static_cast<std::size_t>(std::stoi(role.substr(3)));
    if (inputs.size() <= i) inputs.resize(i + 1);
    inputs[i] = array.tensor();
  }
  for (const auto& [key, word] : source.params)
    if (key != "outputs") attributes[key] = attribute_of(source, key);
  return {source.name, source.op, std::move(inputs), std::move(attributes), source.integer("outputs")};
}

}  // namespace binade::onnx
