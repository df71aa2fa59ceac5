#include "binade/run/weights.h"

#include <filesystem>
#include <map>
#include <string_view>

#include "binade/core/error.h"
#include "binade/core/version.h"
#include "binade/io/exchange/safetensors.h"
#include "binade/io/files/read_file.h"
#include "binade/io/files/zip.h"
#include "binade/nn/linear.h"

namespace binade {

namespace {

namespace fs = std::filesystem;

/// Returns the averages of a checkpoint by the names of the parameters. Each optimizer has its own:
/// "optim/ema/average/" or, if there are several, "optim/NAME/ema/average/".
std::map<std::string, Tensor> averages_of(const StateDict& checkpoint) {
  constexpr std::string_view kSection = "optim/", kPart = "ema/average/";
  std::map<std::string, Tensor> averages;
  for (const auto& [name, value] : checkpoint.values()) {
    const std::size_t part = name.find(kPart);
    const bool is_average = name.starts_with(kSection) && part != std::string::npos &&
                            (part == kSection.size() || name[part - 1] == '/');
    if (const auto* tensor = std::get_if<Tensor>(&value); is_average && tensor != nullptr)
      averages.emplace(name.substr(part + kPart.size()), *tensor);
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

std::string checkpoints_in(const std::string& folder) {
  std::error_code error;
  const std::string inside = folder + "/checkpoints";
  return fs::is_directory(inside, error) ? inside : folder;
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
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const std::string folder = checkpoints_in(path);
    const io::FoundCheckpoint found = io::find_checkpoint(
        folder, options.checkpoint, options.say ? options.say : [](const std::string&) {});
    const std::string file = folder + "/" + found.file;
    if (options.say) options.say(fmt::format("{}: {}", file, found.why));
    return load_weights(model, found.state, options, file);
  }
  if (path.ends_with(".safetensors")) return load_safetensors(model, path, options);
  check<DataError>(!fs::exists(path, error) || !io::is_zip(io::read_begin(path, 4)),
                   "load_weights: {}: it is a file of torch.save(); load it with load_pytorch()", path);
  return load_weights(model, io::load_checkpoint(path).state, options, path);
}

void save_weights(nn::Module& model, const std::string& path) {
  io::Safetensors content{.tensors = {}, .metadata = {{"format", "pt"}, {"writer", std::string(build_id())}}};
  const StateDict state = nn::state_dict(model);
  for (const auto& [name, value] : state.values()) content.tensors.emplace(name, std::get<Tensor>(value));
  io::write_safetensors(path, content);
}

}  // namespace binade
