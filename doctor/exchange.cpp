#include <filesystem>
#include <system_error>

#include "binade/core/error.h"
#include "binade/doctor/commands.h"
#include "binade/doctor/selected_checkpoint.h"
#include "binade/io/checkpoint/find.h"
#include "binade/io/exchange/name_maps/hf_gpt2.h"
#include "binade/io/exchange/name_maps/pytorch_unet.h"
#include "binade/io/exchange/pytorch_file.h"
#include "binade/io/files/output_file.h"
#include "binade/io/terminal/console.h"
#include "binade/run/model_files/model_file.h"

namespace binade::doctor {

namespace {

constexpr const char* kTable = "tokens.weight";

/// True for the name of a normalization statistic. Checkpoints store statistics in a separate section; exchange files
/// store them among the weights.
bool is_statistic(const std::string& name) {
  return name.ends_with(".running_mean") || name.ends_with(".running_var") || name.ends_with(".num_batches_tracked");
}

Tensor padded_rows(const Tensor& t, std::int64_t rows) {
  check<ArgumentError>(t.rank() == 2 && rows >= t.dim(0), "--vocabulary: wanted at least the table's {} rows, got {}",
                       t.dim(0), rows);
  Tensor padded = Tensor::zeros({rows, t.dim(1)}, t.dtype());
  padded.narrow(0, t.dim(0)).copy_from(t);
  return padded;
}

constexpr const char* kAdvice =
    "wanted what the rules say; see docs/exchange.md, and \"optional\" and \"-\" for the rest";

/// Throws ArgumentError for a value of --names that is neither a known word nor an existing file, and for a
/// --vocabulary that would have no effect.
void check_options(const ExchangeOptions& options) {
  const std::string& names = options.names;
  std::error_code error;
  const bool known = names == "binade" || names == "auto" || names == "pytorch-unet" || names == "hf-gpt2";
  check<ArgumentError>(known || std::filesystem::exists(names, error),
                       "--names: wanted binade, auto, pytorch-unet, hf-gpt2 or a file of rules, got '{}', which does "
                       "not exist",
                       names);
  check<ArgumentError>(options.vocabulary == 0 || names == "hf-gpt2",
                       "--vocabulary: it changes the token table of --names hf-gpt2 alone; wanted it with these names, "
                       "got --names {}",
                       names);
}

/// Returns the rules that convert `tensors`. `names` is "auto" or the path of a file of rules. A name that matches no
/// rule of the file is converted as by io::names_without_model().
io::NameMap rules_of(const std::string& names, const io::TensorMap& tensors) {
  io::NameMap map = names == "auto" ? io::NameMap() : io::NameMap::read(names);
  return map.append(io::names_without_model(tensors));
}

io::TensorMap to_theirs(const io::TensorMap& ours, const ExchangeOptions& options) {
  if (options.names == "binade") return ours;
  if (options.names == "pytorch-unet") return io::unet_to_pytorch(ours);
  if (options.names == "hf-gpt2") return io::gpt2_to_hugging_face(ours, options.vocabulary);
  io::MappedTensors mapped = rules_of(options.names, ours).to_theirs(ours);
  mapped.check(options.names, kAdvice);
  return std::move(mapped.tensors);
}

io::TensorMap from_theirs(const io::TensorMap& theirs, const ExchangeOptions& options) {
  if (options.names == "binade") return theirs;
  if (options.names == "pytorch-unet") return io::unet_from_pytorch(theirs);
  if (options.names == "hf-gpt2") {
    io::TensorMap ours = io::gpt2_from_hugging_face(theirs);
    if (options.vocabulary > 0) ours.at(kTable) = padded_rows(ours.at(kTable), options.vocabulary);
    return ours;
  }
  io::MappedTensors mapped = rules_of(options.names, theirs).from_theirs(theirs);
  mapped.check(options.names, kAdvice);
  return std::move(mapped.tensors);
}

}  // namespace

int export_weights(const ExchangeOptions& options) {
  check_options(options);
  const auto [checkpoint, description] = load(options.from, options.checkpoint, io::CheckpointChoice{});
  if (is_folder(options.from)) io::say(description);
  if (options.to.ends_with(".h5")) {
    check<ArgumentError>(options.names == "binade",
                         "{}: a model file has the names and sizes of the checkpoint; wanted no --names, or a file "
                         "that ends in .safetensors",
                         options.to);
    extract_model(checkpoint.state, options.to, options.from);
    io::print(fmt::format("{}\n", options.to));
    return 0;
  }
  io::Safetensors content;
  for (const char* group : {"model", "norm"}) {
    const StateDict section = checkpoint.state.section(group);
    for (const auto& [name, value] : section.values())
      if (const auto* tensor = std::get_if<Tensor>(&value)) content.tensors.emplace(name, *tensor);
  }
  check<CheckpointError>(!content.tensors.empty(), "{}: it holds no weights (no tensors in /model)", options.from);
  content.tensors = to_theirs(content.tensors, options);
  content.metadata = {{"format", "pt"}, {"writer", checkpoint.info.writer}};
  io::write_safetensors(options.to, content);
  io::print(fmt::format("{} tensors in {}\n", content.tensors.size(), options.to));
  return 0;
}

int import_weights(const ExchangeOptions& options) {
  check_options(options);
  const io::TensorMap tensors = from_theirs(io::read_weights_file(options.from, options.entry), options);
  StateDict state;
  for (const auto& [name, tensor] : tensors)
    state.put((is_statistic(name) ? "norm/" : "model/") + name,
              is_floating(tensor.dtype()) ? tensor.to(DType::f32) : tensor);
  const std::optional<std::string> non_finite = io::first_non_finite(state);
  check<DataError>(!non_finite, "{}: {}", options.from, non_finite.value_or(""));
  const io::CheckpointImage image = io::encode_checkpoint(state, "");
  io::verify_checkpoint(image.bytes(), options.from);  // throws before a file is written that could not be read
  io::write_output_file(options.to, image.bytes());
  io::print(fmt::format("{} tensors in {}\n", tensors.size(), options.to));
  return 0;
}

}  // namespace binade::doctor
