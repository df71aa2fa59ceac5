#include <fmt/format.h>

#include <algorithm>

#include "binade/core/error.h"
#include "binade/core/step_context.h"
#include "binade/io/onnx/reading/model_state.h"

namespace binade::onnx {

std::string Model::State::described(const Step& step) const {
  return fmt::format("node \"{}\" ({}, opset {})", step.name, step.op, opset);
}

std::vector<Variable> Model::State::run(const Step& step, const std::vector<Variable>& all) const {
  std::vector<Variable> operands;
  Device device;
  for (const int place : step.inputs) {
    operands.push_back(place < 0 ? Variable() : all[static_cast<std::size_t>(place)]);
    if (operands.back().defined() && operands.back().device() != Device::cpu()) device = operands.back().device();
  }
  if (device != Device::cpu())  // positions and extents may be on the host
    for (Variable& x : operands)
      if (x.defined() && x.device() != device) x = x.value().to(device);
  try {
    Outputs results = run_of_version(step, std::move(operands), opset);
    results.resize(std::max(results.size(), step.outputs.size()));
    return results;
  } catch (const UnsupportedNode& e) {
    throw ArgumentError(fmt::format("{}: {}: {}", path, described(step), e.what()));
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(fmt::format("{}: {}: no memory for its result", path, described(step)));
  } catch (const std::exception& e) {
    throw ArgumentError(fmt::format("{}: {}: {}", path, described(step), e.what()));
  }
}

Model::Model(std::unique_ptr<State> state) : state_(std::move(state)) {}
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

const std::vector<ModelValue>& Model::inputs() const { return state_->inputs; }
const std::vector<ModelValue>& Model::outputs() const { return state_->outputs; }
std::int64_t Model::opset() const { return state_->opset; }
const std::string& Model::producer() const { return state_->producer; }
std::size_t Model::nodes() const { return state_->steps.size(); }

void Model::visit(nn::Visitor& visitor) {
  for (auto& p : state_->parameters) visitor(p.name, p.value);
  for (auto& b : state_->buffers) visitor(b.name, b.value);
}

Variable Model::forward(const Variable& x) {
  check<ArgumentError>(state_->inputs.size() == 1 && state_->outputs.size() == 1,
                       "{}: the model has {} inputs and {} outputs; call run() instead of forward()", state_->path,
                       state_->inputs.size(), state_->outputs.size());
  return run(std::span(&x, 1)).front();
}

namespace {

void check_input(const std::string& path, const ModelValue& wanted, const Variable& x) {
  check<ArgumentError>(x.defined(), "{}: input \"{}\" is undefined", path, wanted.name);
  check<DTypeError>(!wanted.dtype || *wanted.dtype == x.dtype(), "{}: wanted {} for input \"{}\", got {}", path,
                    name_of(wanted.dtype.value_or(DType::f32)), wanted.name, name_of(x.dtype()));
  if (!wanted.dims) return;
  bool fits = static_cast<int>(wanted.dims->size()) == x.value().rank();
  for (int i = 0; fits && i < x.value().rank(); ++i) {
    const std::int64_t d = (*wanted.dims)[static_cast<std::size_t>(i)];
    fits = d < 0 || d == x.dim(i);
  }
  if (fits) return;
  std::string dims;
  for (const std::int64_t d : *wanted.dims) dims += (dims.empty() ? "" : ", ") + (d < 0 ? "any" : std::to_string(d));
  throw ShapeError(fmt::format("{}: wanted extents ({}) for input \"{}\", got {}", path, dims, wanted.name, x.shape()));
}

}  // namespace

std::vector<Variable> Model::run(std::span<const Variable> inputs) {
  const State& s = *state_;
  check<ArgumentError>(inputs.size() == s.inputs.size(), "{}: wanted {} inputs, got {}", s.path, s.inputs.size(),
                       inputs.size());
  std::vector<Variable> values(static_cast<std::size_t>(s.values));
  const auto at = [&](int place) -> Variable& { return values[static_cast<std::size_t>(place)]; };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_input(s.path, s.inputs[i], inputs[i]);
    at(s.input_places[i]) = inputs[i];
  }
  for (const auto& p : s.parameters) at(p.place) = p.value;
  for (const auto& b : s.buffers) at(b.place) = b.value.value();
  for (const auto& c : s.constants) at(c.place) = c.value;
  const std::string prefix = step_context().module_path.empty() ? "" : step_context().module_path + ".";
  for (const Step& step : s.steps) {
    const ModulePathScope path(prefix + step.name);
    std::vector<Variable> results = s.run(step, values);
    for (std::size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i] < 0) continue;
      check<ArgumentError>(results[i].defined(), "{}: {}: Binade's function gives no output {}", s.path,
                           s.described(step), i);
      at(step.outputs[i]) = results[i];
    }
    for (const int place : step.released) at(place) = Variable();
  }
  std::vector<Variable> outputs;
  for (const int place : s.output_places) outputs.push_back(at(place));
  return outputs;
}

bool is_importable(const std::string& op) {
  // In the table, the members of a sequence are separate values; in a graph, a sequence is one value.
  const bool of_sequences = op == "SplitToSequence" || op == "ConcatFromSequence";
  return op == "Upsample" || (table().contains(op) && !of_sequences);  // Upsample: an older form of Resize
}

std::vector<std::string> importable_operators() {
  std::vector<std::string> names{"Upsample"};
  for (const auto& [name, function] : table())
    if (is_importable(name)) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

}  // namespace binade::onnx
