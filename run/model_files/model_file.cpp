#include "binade/run/model_files/model_file.h"

#include <optional>
#include <string_view>
#include <utility>

#include "binade/core/error.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/checkpoint/sections.h"
#include "binade/io/files/output_file.h"
#include "binade/run/model_files/stored_model.h"

namespace binade {

namespace {

// The names that the Trainer and the programs give these entries in the checkpoints of a run.
constexpr const char* kArchitecture = "progress/architecture";
constexpr const char* kTokenizer = "progress/tokenizer";
constexpr const char* kPolicy = "amp/policy";

/// True for an entry of a checkpoint that inference needs.
bool belongs_to_model(std::string_view name) {
  return name.starts_with("model/") || name.starts_with("norm/") || name == kArchitecture || name == kPolicy ||
         name.starts_with(std::string(kTokenizer) + "/") || averaged_parameter(name).has_value();
}

void write(const StateDict& state, const std::string& path) {
  const std::optional<std::string> non_finite = io::first_non_finite(state.section("model"));
  check<NumericError>(!non_finite, "{}: not written: {}; wanted finite weights", path, non_finite.value_or(""));
  const io::CheckpointImage image = io::encode_checkpoint(state, "");
  io::verify_checkpoint(image.bytes(), path);  // throws before a file is written that could not be read
  io::write_output_file(path, image.bytes());
}

void check_has_weights(const StateDict& state, const std::string& path) {
  check<CheckpointError>(!state.section("model").empty(), "{}: it holds no weights (no tensors in /model)", path);
}

}  // namespace

void save_model(nn::Module& model, const std::string& path, const ModelDescription& description) {
  StateDict state;
  for (const auto& [name, parameter] : nn::named_parameters(model)) state.put("model/" + name, parameter->value());
  for (const auto& [name, buffer] : nn::named_buffers(model)) state.put("norm/" + name, buffer->committed());
  state.put(kPolicy, description.policy.to_string());
  if (!description.architecture.empty()) state.put(kArchitecture, description.architecture);
  if (description.tokenizer != nullptr) state.merge(kTokenizer, io::tokenizer_state(*description.tokenizer));
  write(state, path);
}

void extract_model(const std::string& run, const std::string& path, const io::CheckpointChoice& choice,
                   const io::Warn& say) {
  const ChosenCheckpoint chosen = choose_checkpoint(run, choice, say);
  extract_model(chosen.state, path, chosen.file);
}

void extract_model(const StateDict& checkpoint, const std::string& path, const std::string& name) {
  check_has_weights(checkpoint, name);
  StateDict state;
  for (const auto& [entry, value] : checkpoint.values())
    if (belongs_to_model(entry)) state.put(entry, value);
  write(state, path);
}

ModelFile::ModelFile(const std::string& path, const io::CheckpointChoice& choice, const io::Warn& say) {
  ChosenCheckpoint chosen = choose_checkpoint(path, choice, say);
  check_has_weights(chosen.state, chosen.file);
  path_ = std::move(chosen.file);
  state_ = std::move(chosen.state);
}

const std::string& ModelFile::architecture() const {
  check<CheckpointError>(
      state_.contains(kArchitecture),
      "{}: it does not describe the architecture of its model; wanted a file of save_model() with an "
      "`architecture`, or a checkpoint with the text \"{}\"",
      path_, kArchitecture);
  return state_.text(kArchitecture);
}

std::unique_ptr<io::Tokenizer> ModelFile::tokenizer() const {
  const StateDict section = state_.section(kTokenizer);
  check<CheckpointError>(!section.empty(), "{}: it has no tokenizer; wanted a model that was saved with one", path_);
  return io::restore_tokenizer(section);
}

PrecisionPolicy ModelFile::policy() const {
  if (!state_.contains(kPolicy)) return {};
  try {
    return PrecisionPolicy::from_string(state_.text(kPolicy));
  } catch (const ArgumentError& error) {
    throw CheckpointError(fmt::format("{}: {}", path_, error.what()));
  }
}

LoadedWeights ModelFile::load(nn::Module& model, const WeightsOptions& options) const {
  return load_weights(model, state_, options, path_);
}

}  // namespace binade
