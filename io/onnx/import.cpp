#include "binade/io/onnx/import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "binade/autograd/inference_mode.h"
#include "binade/core/error.h"
#include "binade/io/files/file_ops.h"
#include "binade/io/files/read_file.h"
#include "binade/io/onnx/reading/model_state.h"
#include "binade/io/onnx/reading/tensors.h"

namespace binade::onnx {
namespace {

constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 31) - 1;  // of a protobuf message
constexpr std::int64_t kOldestOpset = 7;
constexpr std::size_t kMostReported = 20;

/// True for operators that are never evaluated at import, because their result is random.
bool is_random(const std::string& op) {
  static const std::set<std::string> names{"Bernoulli",        "Dropout",       "Multinomial",      "RandomNormal",
                                           "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
  return names.contains(op);
}

/// True for inputs of an operator that training does not change, such as statistics and scales.
bool is_fixed_input(const std::string& op, int i) {
  if (op == "BatchNormalization") return i >= 3;
  if (op == "Resize" || op == "Upsample") return i >= 1;
  return op.find("Quantize") != std::string::npos || op.starts_with("QLinear");
}

std::string shortened(const std::string& text) { return text.size() > 120 ? text.substr(0, 120) + "…" : text; }

/// Reads the graph of a model.
class Reader {
 public:
  Reader(std::string path, const ImportOptions& options) : path_(std::move(path)), options_(options) {}

  std::unique_ptr<Model::State> read() {
    const std::string bytes = io::read_file(path_, kMostBytes);
    ::onnx::ModelProto model;
    require(!bytes.empty() && model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) && model.has_graph(),
            "is no complete ONNX model");
    state_->path = path_;
    state_->producer = shortened(model.producer_name() + " " + model.producer_version());
    find_opset(model);
    require(model.functions_size() == 0, "has functions of its own, which are not supported");
    const ::onnx::GraphProto& graph = model.graph();
    require(graph.sparse_initializer_size() == 0, "has sparse initializers, which are not supported");
    check_operators(graph);
    initializers(graph);
    inputs(graph);
    for (int i = 0; i < graph.node_size(); ++i) node(graph, i);
    outputs(graph);
    make_entities();
    fold_constants();
    plan_release();
    return std::move(state_);
  }

 private:
  /// An initializer, before it is known how nodes use it.
  struct Initializer {
    std::string name{};
    int place = 0;
    Tensor value{};
    bool fixed = false;
  };

  [[noreturn]] void refuse(const std::string& what) const { throw DataError(fmt::format("{}: {}", path_, what)); }
  void require(bool condition, const char* what) const {
    if (!condition) throw DataError(fmt::format("{} {}", path_, what));
  }

  void find_opset(const ::onnx::ModelProto& model) {
    for (const auto& opset : model.opset_import())
      if (opset.domain().empty() || opset.domain() == "ai.onnx") state_->opset = opset.version();
    if (state_->opset < kOldestOpset || state_->opset > 1000)
      refuse(
          fmt::format("wanted operators of opset {} or later, got opset {}; convert the file with the package onnx "
                      "(onnx.version_converter)",
                      kOldestOpset, state_->opset));
  }

  /// Throws DataError that lists the operators without a function, so that one attempt shows all.
  void check_operators(const ::onnx::GraphProto& graph) const {
    std::vector<std::string> unknown;
    std::size_t count = 0;
    for (const auto& node : graph.node()) {
      const bool ours = node.domain().empty() || node.domain() == "ai.onnx";
      if (ours && is_importable(node.op_type())) continue;
      if (++count <= kMostReported)
        unknown.push_back(fmt::format("{}{} (node \"{}\")", ours ? "" : shortened(node.domain()) + ".",
                                      shortened(node.op_type()), shortened(node.name())));
    }
    if (count > 0)
      refuse(fmt::format("Binade has no function for {} of {} nodes, opset {}: {}{}", count, graph.node_size(),
                         state_->opset, fmt::join(unknown, ", "), count > kMostReported ? ", …" : ""));
  }

  int define(const std::string& name, const std::string& by) {
    if (name.empty()) refuse(by + " has no name");
    const auto [found, is_first] = places_.emplace(name, state_->values);
    if (!is_first)
      refuse(fmt::format("the name \"{}\" is given to two values, the second time by {}", shortened(name), by));
    return state_->values++;
  }

  void initializers(const ::onnx::GraphProto& graph) {
    for (const auto& tensor : graph.initializer()) {
      const int place = define(tensor.name(), "an initializer");
      initializers_.push_back({tensor.name(), place, tensors_.read(tensor, "initializer"), false});
    }
  }

  void inputs(const ::onnx::GraphProto& graph) {
    for (const auto& input : graph.input()) {
      const auto found = places_.find(input.name());
      const bool initialized = found != places_.end() && found->second < static_cast<int>(initializers_.size());
      if (initialized) continue;  // in files of IR version 3, initializers are inputs too
      state_->input_places.push_back(define(input.name(), "an input"));
      state_->inputs.push_back(value_of(input));
    }
  }

  ModelValue value_of(const ::onnx::ValueInfoProto& info) const {
    ModelValue value{.name = info.name()};
    if (!info.has_type()) return value;
    if (!info.type().has_tensor_type()) refuse(fmt::format("\"{}\" is no tensor", shortened(info.name())));
    const auto& type = info.type().tensor_type();
    if (type.elem_type() != 0) value.dtype = dtype_of(type.elem_type());
    if (type.elem_type() != 0 && !value.dtype)
      refuse(fmt::format("\"{}\" has the dtype {}, which Binade lacks", shortened(info.name()),
                         name_of_data_type(type.elem_type())));
    if (!type.has_shape()) return value;
    value.dims.emplace();
    for (const auto& dim : type.shape().dim())
      value.dims->push_back(dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value() : -1);
    return value;
  }

  void node(const ::onnx::GraphProto& graph, int number) {
    const ::onnx::NodeProto& from = graph.node(number);
    Step step{.name = from.name().empty() ? fmt::format("{}_{}", from.op_type(), number) : shortened(from.name()),
              .op = from.op_type()};
    const std::string described = state_->described(step);
    for (const std::string& name : from.input()) {
      if (name.empty()) {
        step.inputs.push_back(-1);
        continue;
      }
      const auto found = places_.find(name);
      if (found == places_.end())
        refuse(fmt::format("{} reads \"{}\", which is no input or initializer and computed by no earlier node",
                           described, shortened(name)));
      note_use(found->second, step.op, static_cast<int>(step.inputs.size()));
      step.inputs.push_back(found->second);
    }
    for (const auto& attribute : from.attribute())
      if (!step.attributes.emplace(attribute.name(), tensors_.attribute(attribute, described)).second)
        refuse(fmt::format("{} has the attribute {} twice", described, shortened(attribute.name())));
    for (const std::string& name : from.output()) step.outputs.push_back(name.empty() ? -1 : define(name, described));
    if (step.outputs.empty()) refuse(described + " has no outputs");
    state_->steps.push_back(std::move(step));
  }

  void note_use(int place, const std::string& op, int input) {
    if (place < static_cast<int>(initializers_.size()) && is_fixed_input(op, input))
      initializers_[static_cast<std::size_t>(place)].fixed = true;  // the first places are those of initializers
  }

  void outputs(const ::onnx::GraphProto& graph) {
    for (const auto& output : graph.output()) {
      const auto found = places_.find(output.name());
      if (found == places_.end())
        refuse(fmt::format("the output \"{}\" is computed by no node", shortened(output.name())));
      state_->output_places.push_back(found->second);
      state_->outputs.push_back(value_of(output));
    }
    require(graph.output_size() > 0, "has no outputs");
  }

  /// Returns a unique name for checkpoints: letters, digits, "_", and single dots between names.
  std::string visible_name(const std::string& name) {
    std::string visible;
    for (const char c : name) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
      const bool dot = c == '.' && !visible.empty() && visible.back() != '.';
      visible += plain || dot ? c : '_';
    }
    visible = visible.substr(0, 200);
    if (!visible.empty() && visible.back() == '.') visible.back() = '_';
    // No name may be the path to another one either: "a" and "a.b" cannot both be entries of a checkpoint.
    const auto is_taken = [&](const std::string& wanted) {
      if (names_.contains(wanted) || paths_.contains(wanted)) return true;
      for (std::size_t dot = wanted.find('.'); dot != std::string::npos; dot = wanted.find('.', dot + 1))
        if (names_.contains(wanted.substr(0, dot))) return true;
      return false;
    };
    if (is_taken(visible)) std::ranges::replace(visible, '.', '_');
    std::string unique = visible;
    for (int& i = suffixes_[visible]; is_taken(unique);) unique = fmt::format("{}_{}", visible, ++i);
    names_.insert(unique);
    for (std::size_t dot = unique.find('.'); dot != std::string::npos; dot = unique.find('.', dot + 1))
      paths_.insert(unique.substr(0, dot));
    return unique;
  }

  void make_entities() {
    for (Initializer& i : initializers_) {
      const bool floating = is_floating(i.value.dtype());
      if (!floating) {
        state_->constants.push_back({i.name, i.place, i.value});
        continue;
      }
      const bool trained = options_.trained ? options_.trained(i.name, i.value) : !i.fixed && i.value.rank() > 0;
      const std::string name = visible_name(i.name);
      if (trained)
        state_->parameters.push_back({name, i.place, nn::Parameter(i.value)});
      else
        state_->buffers.push_back({name, i.place, nn::Buffer(i.value)});
    }
  }

  /// Evaluates the nodes that depend only on constants.
  void fold_constants() {
    const NoGradGuard no_gradients;
    std::vector<Variable> values(static_cast<std::size_t>(state_->values));
    for (const auto& c : state_->constants) values[static_cast<std::size_t>(c.place)] = c.value;
    std::vector<Step> kept;
    for (Step& step : state_->steps) {
      const auto known = [&](int place) { return place < 0 || values[static_cast<std::size_t>(place)].defined(); };
      if (is_random(step.op) || !std::ranges::all_of(step.inputs, known)) {
        kept.push_back(std::move(step));
        continue;
      }
      const std::vector<Variable> results = folded(step, values);
      for (std::size_t i = 0; i < step.outputs.size(); ++i) {
        if (step.outputs[i] < 0) continue;
        if (!results[i].defined()) refuse(fmt::format("{} has no output {}", state_->described(step), i));
        values[static_cast<std::size_t>(step.outputs[i])] = results[i];
        state_->constants.push_back({step.name, step.outputs[i], results[i]});
      }
    }
    state_->steps = std::move(kept);
  }

  std::vector<Variable> folded(const Step& step, const std::vector<Variable>& values) const {
    try {
      return state_->run(step, values);
    } catch (const OutOfMemoryError&) {
      throw;
    } catch (const Error& e) {
      throw DataError(fmt::format("{}: {} of constants: {}", path_, state_->described(step), e.what()));
    }
  }

  void plan_release() {
    std::vector<bool> kept(static_cast<std::size_t>(state_->values), false);
    for (const int place : state_->output_places) kept[static_cast<std::size_t>(place)] = true;
    for (auto step = state_->steps.rbegin(); step != state_->steps.rend(); ++step)
      for (const auto* places : {&step->inputs, &step->outputs})
        for (const int place : *places)
          if (place >= 0 && !kept[static_cast<std::size_t>(place)]) {
            kept[static_cast<std::size_t>(place)] = true;
            step->released.push_back(place);
          }
  }

  std::string path_;
  TensorReader tensors_{path_};
  const ImportOptions& options_;
  std::unique_ptr<Model::State> state_ = std::make_unique<Model::State>();
  std::unordered_map<std::string, int> places_;
  std::vector<Initializer> initializers_;
  std::set<std::string> names_, paths_;            // of parameters and buffers, and the paths to them
  std::unordered_map<std::string, int> suffixes_;  // last suffix of each name, to number many equal names fast
};

}  // namespace

Model import_model(const std::string& path, const ImportOptions& options) {
  return Model(Reader(path, options).read());
}

}  // namespace binade::onnx
