#include "binade/io/onnx/writing/recorder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "binade/core/error.h"
#include "binade/core/step_context.h"

namespace binade::onnx {
namespace {

const Integers kToChannelsFirst{0, 3, 1, 2}, kToRows{0, 2, 3, 1};

Integers dims_of(const Tensor& x) {
  const auto dims = x.shape().dims();
  return {dims.begin(), dims.end()};
}

}  // namespace

Recorder::Key Recorder::key_of(const Tensor& x) {
  Integers layout = dims_of(x);
  layout.push_back(static_cast<std::int64_t>(x.dtype()));
  layout.push_back(x.contiguous() ? 0 : x.pitch());
  return {x.raw(), std::move(layout)};
}

RecordedValue* Recorder::find(const Tensor& x) {
  const auto found = values_.find(key_of(x));
  return found == values_.end() ? nullptr : &found->second;
}

std::string Recorder::fresh(const std::string& stem) {
  std::string name = stem;
  for (int& count = counts_[stem]; !taken_.insert(name).second;) name = fmt::format("{}_{}", stem, ++count);
  return name;
}

void Recorder::input(const std::string& name, const Tensor& x) {
  alive_.push_back(x);
  taken_.insert(name);
  graph_.inputs.push_back({name, x.dtype(), dims_of(x)});
  values_[key_of(x)] = {.rows = name};
}

void Recorder::output(const std::string& name, const Tensor& x) {
  RecordedValue* value = find(x);
  std::string from;
  if (value == nullptr) {
    from = constant(x);
  } else if (!value->rows.empty()) {
    from = value->rows;
  } else {
    from = fresh("output_rows");
    graph_.nodes.push_back({.op = "Transpose",
                            .inputs = {value->channels_first},
                            .outputs = {from},
                            .attributes = {{"perm", kToRows}},
                            .origin = "permute [output]"});
    value->rows = from;
  }
  graph_.nodes.push_back({.op = "Identity", .inputs = {from}, .outputs = {name}, .origin = "output " + name});
  graph_.outputs.push_back({name, x.dtype(), dims_of(x)});
}

std::string Recorder::add_constant(const std::string& name, const Tensor& x, bool weight) {
  const std::string unique = fresh(name);
  graph_.constants.push_back({unique, x.on_host(), weight});
  return unique;
}

const std::string& Recorder::constant(const Tensor& x) {
  std::string& name = constants_[key_of(x)];
  if (!name.empty()) return name;
  alive_.push_back(x);
  const auto weight = weights_.find(x.raw());
  const auto copy = copies_.find(x.raw());
  if (weight != weights_.end())
    name = add_constant(weight->second, x, true);
  else if (copy != copies_.end())
    name = add_constant(copy->second, x, true);
  else
    name = add_constant("constant", x, false);
  return name;
}

void Recorder::before_forward(const OpCall&, std::span<const Variable> inputs, Tensors& read) {
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (!read[i].defined()) continue;
    alive_.push_back(read[i]);
    if (read[i].raw() == inputs[i].value().raw() || read[i].dtype() == inputs[i].dtype()) continue;
    const auto weight = weights_.find(inputs[i].value().raw());
    if (weight != weights_.end() && find(read[i]) == nullptr) copies_[read[i].raw()] = weight->second;
  }
}

void Recorder::after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs, const Observation&) {
  for (const Tensor& y : outputs) alive_.push_back(y);
  const auto computed = [&](const Tensor& x) {
    return x.defined() && (find(x) != nullptr || weights_.contains(x.raw()) || copies_.contains(x.raw()));
  };
  if (std::ranges::none_of(read, computed)) return;  // the results are constants
  Call written(*this, call, read, outputs);
  const auto writer = op_writers().find(&call.info);
  if (writer == op_writers().end()) return written.problem("no operator of ONNX computes it");
  try {
    writer->second(written);
  } catch (const NoCounterpart& e) {
    written.problem(e.what());
  }
}

Call::Call(Recorder& recorder, const OpCall& call, std::span<const Tensor> read, const Tensors& outputs)
    : recorder_(recorder), call_(call), read_(read), outputs_(outputs) {
  for (const auto& tensors : {std::span<const Tensor>(read), std::span<const Tensor>(outputs)})
    for (const Tensor& x : tensors) {
      if (!x.defined() || !is_floating(x.dtype())) continue;
      if (computing_ != DType::f64) computing_ = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
    }
  origin_ = where(call.info.name).to_string();
  std::string path(call.module_path);
  std::ranges::replace(path, '.', '/');
  stem_ = path.empty() ? call.info.name : path + "/" + call.info.name;
}

std::string Call::node(const std::string& op, std::vector<std::string> inputs, WrittenAttributes attributes) {
  return node(1, op, std::move(inputs), std::move(attributes))[0];
}

std::vector<std::string> Call::node(int outputs, const std::string& op, std::vector<std::string> inputs,
                                    WrittenAttributes attributes) {
  while (!inputs.empty() && inputs.back().empty()) inputs.pop_back();
  std::vector<std::string> names;
  for (int i = 0; i < outputs; ++i) names.push_back(recorder_.fresh(stem_ + "/" + op));
  recorder_.graph_.nodes.push_back({op, std::move(inputs), names, std::move(attributes), origin_, {}});
  return names;
}

void Call::problem(const std::string& why, int first) {
  WrittenNode bad{.origin = origin_, .problem = why};
  for (const Tensor& x : read_)
    if (x.defined())
      if (const RecordedValue* value = recorder_.find(x); value != nullptr)
        bad.inputs.push_back(value->rows.empty() ? value->channels_first : value->rows);
  for (int k = first; k < results(); ++k) {
    bad.outputs.push_back(recorder_.fresh(stem_ + "/problem"));
    set(k, {.rows = bad.outputs.back()});
  }
  recorder_.graph_.nodes.push_back(std::move(bad));
}

std::string Call::tensor(const Tensor& value) {
  recorder_.alive_.push_back(value);
  return recorder_.add_constant(stem_ + "/constant", value, false);
}

std::string Call::scalar(double value, DType dtype) { return tensor(Tensor::scalar(value, dtype)); }

std::string Call::list(const Integers& values) {
  return tensor(Tensor::from(values, Shape{static_cast<std::int64_t>(values.size())}));
}

std::string Call::weight_name(int i) const {
  const void* address = in(i).raw();
  const auto weight = recorder_.weights_.find(address);
  if (weight != recorder_.weights_.end()) return weight->second;
  const auto copy = recorder_.copies_.find(address);
  return copy == recorder_.copies_.end() ? "" : copy->second;
}

std::string Call::weight(const std::string& name, const Tensor& value) {
  recorder_.alive_.push_back(value);
  return recorder_.add_constant(name, value, true);
}

std::string Call::cast(const std::string& x, DType from, DType to) {
  if (from == to) return x;
  std::string& made = recorder_.made_[{x, fmt::format("cast {}", name_of(to))}];
  if (made.empty()) made = node("Cast", {x}, {{"to", data_type_of(to)}});
  return made;
}

std::string Call::rows(int i) {
  RecordedValue* value = recorder_.find(in(i));
  if (value == nullptr) return recorder_.constant(in(i));
  if (value->rows.empty()) value->rows = node("Transpose", {value->channels_first}, {{"perm", kToRows}});
  return value->rows;
}

std::string Call::stored(int i) { return rows(i); }
std::string Call::as(int i, DType dtype) { return cast(rows(i), in(i).dtype(), dtype); }

std::string Call::channels_first(int i) {
  RecordedValue* value = recorder_.find(in(i));
  if (value == nullptr) return transposed(i, kToChannelsFirst);
  if (value->channels_first.empty())
    value->channels_first = node("Transpose", {value->rows}, {{"perm", kToChannelsFirst}});
  return cast(value->channels_first, in(i).dtype(), computing_);
}

std::string Call::transposed(int i, const Integers& perm) {
  const std::string x = rows(i);
  std::string& made = recorder_.made_[{x, fmt::format("transpose {}", fmt::join(perm, ","))}];
  if (made.empty()) made = node("Transpose", {x}, {{"perm", perm}});
  return cast(made, in(i).dtype(), computing_);
}

bool Call::only_channels_first(int i) const {
  const RecordedValue* value = recorder_.find(in(i));
  return value != nullptr && value->rows.empty();
}

bool Call::prefers_channels_first() {
  bool wanted = false;
  if (out().rank() != 4) return false;
  for (int i = 0; i < inputs(); ++i) {
    if (!has(i)) continue;
    const RecordedValue* value = recorder_.find(in(i));
    if (value == nullptr) continue;
    if (in(i).rank() != 4 && in(i).rank() != 0) return false;
    wanted = wanted || (in(i).rank() == 4 && value->rows.empty());
  }
  return wanted;
}

std::string Call::operand(int i, bool first, DType dtype) {
  if (!first || in(i).rank() == 0) return as(i, dtype);
  if (RecordedValue* value = recorder_.find(in(i)); value != nullptr) {
    if (value->channels_first.empty())
      value->channels_first = node("Transpose", {value->rows}, {{"perm", kToChannelsFirst}});
    return cast(value->channels_first, in(i).dtype(), dtype);
  }
  // Adds axes of extent 1 and transposes: a constant here, a weight by nodes, so that it stays a weight.
  std::string x = rows(i);
  Integers dims(static_cast<std::size_t>(4 - in(i).rank()), 1);
  for (const std::int64_t d : dims_of(in(i))) dims.push_back(d);
  if (weight_name(i).empty())
    return cast(tensor(permuted(in(i).on_host().reshape(Shape(dims)), kToChannelsFirst)), in(i).dtype(), dtype);
  if (in(i).rank() == 1) {
    std::string& made = recorder_.made_[{x, "channels"}];
    if (made.empty()) made = node("Reshape", {x, list({-1, 1, 1})});
    return cast(made, in(i).dtype(), dtype);
  }
  if (in(i).rank() < 4) x = node("Reshape", {x, list(dims)});
  return cast(node("Transpose", {x}, {{"perm", kToChannelsFirst}}), in(i).dtype(), dtype);
}

void Call::result_as(int k, const std::string& x, DType dtype, bool first) {
  const std::string stored = cast(x, dtype, out(k).dtype());
  recorder_.values_[Recorder::key_of(out(k))] = first ? RecordedValue{.channels_first = stored}
                                                      : RecordedValue{.rows = stored};
}

std::int64_t data_type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return 1;
    case DType::u8: return 2;
    case DType::i32: return 6;
    case DType::i64: return 7;
    case DType::boolean: return 9;
    case DType::f16: return 10;
    case DType::f64: return 11;
    case DType::bf16: return 16;
  }
  return 0;
}

const OpWriters& op_writers() {
  static const OpWriters all = [] {
    OpWriters joined;
    for (const OpWriters& family :
         {elementwise_writers(), activation_writers(), truth_writers(), reduction_writers(), shape_writers(),
          product_writers(), image_writers(), norm_writers(), sequence_writers()})
      joined.insert(family.begin(), family.end());
    return joined;
  }();
  return all;
}

}  // namespace binade::onnx
