#include "binade/io/onnx/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/shape.h"
#include "binade/autograd/inference_mode.h"
#include "binade/core/error.h"
#include "binade/io/onnx/writing/file.h"
#include "binade/io/onnx/writing/recorder.h"

namespace binade::onnx {
namespace {

/// Sets evaluation mode. The destructor restores the mode of each module.
class Evaluation {
 public:
  explicit Evaluation(nn::Module& model) : model_(model), was_training_(model.training()) {
    for (auto& [name, module] : nn::named_modules(model)) modes_.emplace_back(module, module->training());
    model.eval();
  }
  ~Evaluation() {
    model_.train(was_training_);
    for (auto& [module, training] : modes_)  // a parent sets its children, which follow in this list
      module->train(training);
  }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

 private:
  nn::Module& model_;
  bool was_training_;
  std::vector<std::pair<nn::Module*, bool>> modes_;
};

std::map<const void*, std::string> weights_of(nn::Module& model) {
  std::map<const void*, std::string> names;
  for (auto& [name, parameter] : nn::named_parameters(model))
    if (parameter->defined()) names.emplace(parameter->value().raw(), name);
  for (auto& [name, buffer] : nn::named_buffers(model))
    if (buffer->value().defined()) names.emplace(buffer->value().raw(), name);
  return names;
}

std::vector<std::string> names_of(const std::vector<std::string>& wanted, std::size_t count, const std::string& stem) {
  if (!wanted.empty()) {
    check<ArgumentError>(wanted.size() == count, "onnx::export_model: got {} names for {} {}s", wanted.size(), count,
                         stem);
    for (const std::string& name : wanted)
      check<ArgumentError>(!name.empty() && std::ranges::count(wanted, name) == 1,
                           "onnx::export_model: the name \"{}\" of an {} is empty or given twice", name, stem);
    return wanted;
  }
  if (count == 1) return {stem};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(fmt::format("{}_{}", stem, i));
  return names;
}

/// Records the graph of a forward pass.
Graph recorded(const Forward& forward, const std::vector<Variable>& inputs,
               const std::map<const void*, std::string>& weights, const ExportOptions& options) {
  Recorder recorder(weights);
  const std::vector<std::string> names = names_of(options.input_names, inputs.size(), "input");
  for (std::size_t i = 0; i < inputs.size(); ++i) recorder.input(names[i], inputs[i].value());
  for (const std::string& name : options.output_names) recorder.fresh(name);  // no weight gets the name of an output
  std::vector<Variable> outputs;
  {
    const ObserverScope scope(recorder);
    outputs = forward(inputs);
  }
  check<ArgumentError>(!outputs.empty(), "onnx::export_model: the model has no outputs");
  std::vector<std::string> results = names_of(options.output_names, outputs.size(), "output");
  if (options.output_names.empty())
    for (std::string& name : results) name = recorder.fresh(name);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check<ArgumentError>(outputs[i].defined(), "onnx::export_model: output {} is undefined", i);
    check<ArgumentError>(std::ranges::find(names, results[i]) == names.end(),
                         "onnx::export_model: \"{}\" is the name of an input and of an output", results[i]);
    recorder.output(results[i], outputs[i].value());
  }
  Graph graph = recorder.take();
  remove_unused(graph);
  check_no_problems(graph);
  return graph;
}

/// Returns an input of other values, with one more sample if `more`, to find what in a graph depends on the input.
Variable altered(const Variable& x, bool more) {
  Variable y = x;
  if (more) y = concat({y, narrow(y, 0, 0, 1)}, 0);
  const Shape shape = y.shape();
  if (shape.numel() == 0) return y.value().clone();
  y = flip(reshape(y, {shape.numel()}), {0});
  if (is_floating(y.dtype())) y = cast(y * 0.9, x.dtype());
  return reshape(y, {shape.dims().begin(), shape.dims().end()}).value().clone();
}

}  // namespace

void export_model(const std::string& path, nn::Module& model, const Forward& forward, std::span<const Variable> inputs,
                  const ExportOptions& options) {
  check<ArgumentError>(!inputs.empty(), "onnx::export_model: wanted at least one example input");
  const Evaluation evaluation(model);
  const InferenceMode inference;
  nn::assign_paths(model);
  const auto batched = [&](std::size_t i) {
    return options.dynamic_batch &&
           std::ranges::find(options.unbatched, static_cast<int>(i)) == options.unbatched.end();
  };
  std::int64_t batch = 0;
  std::vector<Variable> example, other;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check<ArgumentError>(inputs[i].defined(), "onnx::export_model: input {} is undefined", i);
    example.push_back(inputs[i].value().clone());
    if (batched(i)) {
      check<ShapeError>(example[i].value().rank() > 0 && example[i].dim(0) > 0,
                        "onnx::export_model: input {} of shape {} has no samples on axis 0: list it in `unbatched`", i,
                        example[i].shape());
      check<ShapeError>(batch == 0 || batch == example[i].dim(0),
                        "onnx::export_model: wanted as many samples in input {} as in others, {}, got {}", i, batch,
                        example[i].dim(0));
      batch = example[i].dim(0);
    }
    other.push_back(altered(example[i], batched(i)));
  }
  check<ArgumentError>(!options.dynamic_batch || batched(0),
                       "onnx::export_model: with dynamic_batch, input 0 must have the samples on axis 0");
  const std::map<const void*, std::string> weights = weights_of(model);
  Graph graph = recorded(forward, example, weights, options);
  merge(graph, recorded(forward, other, weights, options), batch, options.dynamic_batch ? batch + 1 : batch);
  fold_transposed_weights(graph);
  write_graph(path, graph, options.external_data);
}

void export_model(const std::string& path, nn::Module& model, const Variable& x, const ExportOptions& options) {
  const Forward forward = [&](std::span<const Variable> inputs) { return std::vector<Variable>{model(inputs[0])}; };
  export_model(path, model, forward, std::span(&x, 1), options);
}

std::vector<std::string> exported_ops() {
  std::vector<std::string> names;
  for (const auto& [info, writer] : op_writers()) names.emplace_back(info->name);
  std::ranges::sort(names);
  return names;
}

}  // namespace binade::onnx
