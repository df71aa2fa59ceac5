#include "binade/core/error.h"
#include "binade/doctor/commands.h"
#include "binade/doctor/selected_checkpoint.h"
#include "binade/io/checkpoint/find.h"
#include "binade/io/exchange/name_maps/hf_gpt2.h"
#include "binade/io/exchange/name_maps/pytorch_unet.h"
#include "binade/io/exchange/safetensors.h"
#include "binade/io/files/output_file.h"
#include "binade/io/terminal/console.h"

namespace binade::doctor {

namespace {

constexpr const char* kTable = "tokens.weight";

/// True for the name of a normalization statistic. Checkpoints store these in a section of their own; exchange files
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

}  // namespace

int export_weights(const ExchangeOptions& options) {
  const auto [checkpoint, description] = load(options.from, options.checkpoint, io::CheckpointChoice{});
  if (is_folder(options.from)) io::say(description);
  io::Safetensors content;
  for (const char* group : {"model", "norm"}) {
    const StateDict section = checkpoint.state.section(group);
    for (const auto& [name, value] : section.values())
      if (const auto* tensor = std::get_if<Tensor>(&value)) content.tensors.emplace(name, *tensor);
  }
  check<CheckpointError>(!content.tensors.empty(), "{}: it holds no weights (no tensors in /model)", options.from);
  if (options.names == "pytorch-unet") content.tensors = io::unet_to_pytorch(content.tensors);
  if (options.names == "hf-gpt2") content.tensors = io::gpt2_to_hugging_face(content.tensors, options.vocabulary);
  content.metadata = {{"format", "pt"}, {"writer", checkpoint.info.writer}};
  io::write_safetensors(options.to, content);
  io::print(fmt::format("{} tensors in {}\n", content.tensors.size(), options.to));
  return 0;
}

int import_weights(const ExchangeOptions& options) {
  io::TensorMap tensors = io::read_safetensors(options.from).tensors;
  if (options.names == "pytorch-unet") tensors = io::unet_from_pytorch(tensors);
  if (options.names == "hf-gpt2") {
    tensors = io::gpt2_from_hugging_face(tensors);
    if (options.vocabulary > 0) tensors.at(kTable) = padded_rows(tensors.at(kTable), options.vocabulary);
  }
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
