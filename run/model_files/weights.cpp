#include "binade/run/model_files/weights.h"

#include <filesystem>
#include <map>
#include <string_view>

#include "binade/core/error.h"
#include "binade/core/version.h"
#include "binade/io/exchange/safetensors.h"
#include "binade/io/files/read_file.h"
#include "binade/io/files/zip.h"
#include "binade/nn/linear.h"
#include "binade/run/model_files/stored_model.h"

namespace binade {

namespace {

namespace fs = std::filesystem;

/// Returns the averages of a checkpoint by the names of the parameters.
std::map<std::string, Tensor> averages_of(const StateDict& checkpoint) {
  std::map<std::string, Tensor> averages;
  for (const auto& [name, value] : checkpoint.values()) {
    const std::optional<std::string_view> parameter = averaged_parameter(name);
    if (const auto* tensor = std::get_if<Tensor>(&value); parameter && tensor != nullptr)
      averages.emplace(*parameter, *tensor);
  }
  return averages;
}

LoadedWeights load_tensors(nn::Module& model, const StateDict& state, const WeightsOptions& options,
                           const std::string& name) {
  try {
    return {name, false, nn::load_state_dict(model, state, {.strict = options.strict})};
  } catch (const CheckpointError& error) {
    throw CheckpointError(fmt::format("{}: {}", name, error.what()));
  }
}

LoadedWeights load_safetensors(nn::Module& model, const std::string& path, const WeightsOptions& options) {
  check<ArgumentError>(!options.average.value_or(false),
                       "load_weights: wanted averaged weights, got {}, a safetensors file, which has none", path);
  StateDict state;
  for (const auto& [name, tensor] : io::read_safetensors(path).tensors)
    state.put(name, is_half(tensor.dtype()) ? tensor.to(DType::f32) : tensor);
  return load_tensors(model, state, options, path);
}

}  // namespace

LoadedWeights load_weights(nn::Module& model, const StateDict& checkpoint, const WeightsOptions& options,
                           const std::string& name) {
  const StateDict weights = checkpoint.section("model"), statistics = checkpoint.section("norm");
  check<CheckpointError>(!weights.empty(), "load_weights: {}: it holds no weights (no tensors in /model)", name);
  const std::map<std::string, Tensor> averages = averages_of(checkpoint);
  check<CheckpointError>(!options.average.value_or(false) || !averages.empty(),
                         "load_weights: {}: it has no averaged weights; the run needs the option ema or an optimizer "
                         "that averages, or load the last weights (average = false)",
                         name);
  const bool averaged = options.average.value_or(true) && !averages.empty();
  if (averaged && !options.average && options.say)
    options.say(
        fmt::format("{}: averaged weights are loaded, as in the evaluations of the run; average = false loads "
                    "the weights of the last step",
                    name));
  StateDict state;
  bool fp8 = false;
  for (const auto& [parameter, value] : weights.values()) {
    const auto average = averaged ? averages.find(parameter) : averages.end();
    const StateDict::Value chosen = average == averages.end() ? value : StateDict::Value(average->second);
    // A run without f32 master weights stores 16-bit weights; the model's f32 parameters represent them exactly.
    const auto* tensor = std::get_if<Tensor>(&chosen);
    state.put(parameter,
              tensor != nullptr && is_half(tensor->dtype()) ? StateDict::Value(tensor->to(DType::f32)) : chosen);
  }
  for (const auto& [buffer, value] : statistics.values()) {
    state.put(buffer, value);
    fp8 = fp8 || buffer.ends_with("fp8_amax");
  }
  nn::use_fp8(model, fp8);  // histories of magnitudes exist only in models that run in 8 bits
  LoadedWeights loaded = load_tensors(model, state, options, name);
  loaded.averaged = averaged;
  return loaded;
}

LoadedWeights load_weights(nn::Module& model, const std::string& path, const WeightsOptions& options) {
  if (path.ends_with(".safetensors")) return load_safetensors(model, path, options);
  std::error_code error;
  check<DataError>(!fs::is_regular_file(path, error) || !io::is_zip(io::read_begin(path, 4)),
                   "load_weights: {}: it is a file of torch.save(); load it with load_pytorch()", path);
  const ChosenCheckpoint chosen = choose_checkpoint(path, options.checkpoint, options.say);
  return load_weights(model, chosen.state, options, chosen.file);
}

void save_weights(nn::Module& model, const std::string& path) {
  io::Safetensors content{.tensors = {}, .metadata = {{"format", "pt"}, {"writer", std::string(build_id())}}};
  const StateDict state = nn::state_dict(model);
  for (const auto& [name, value] : state.values()) content.tensors.emplace(name, std::get<Tensor>(value));
  io::write_safetensors(path, content);
}

}  // namespace binade
