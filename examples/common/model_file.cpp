#include "examples/common/model_file.h"

#include "autograd/trace.h"
#include "io/checkpoint_store.h"
#include "io/safetensors.h"

namespace binade::examples {

StateDict read_checkpoint(const ModelChoice& choice) {
  if (!choice.checkpoint.empty()) return io::load_checkpoint(choice.checkpoint).state;
  check<ArgumentError>(!choice.run.empty(), "wanted --run DIR or --checkpoint FILE: which model?");
  return io::find_newest_checkpoint(choice.run + "/checkpoints").state;
}

void load_model(nn::Module& model, const StateDict& checkpoint, bool averaged) {
  nn::use_fp8(model, checkpoint.contains("amp/policy") && policy_of(checkpoint).fp8_linear);
  const StateDict weights = checkpoint.section("model"), statistics = checkpoint.section("norm");
  const StateDict averages = checkpoint.section("optim/ema/average");
  StateDict merged;
  for (const auto& [name, value] : weights.values()) {
    const StateDict::Value& chosen = averaged && averages.contains(name) ? averages.values().at(name) : value;
    // Weights without masters are 16-bit in the file; a model is made of f32 ones, which hold them exactly.
    const Tensor* tensor = std::get_if<Tensor>(&chosen);
    merged.put(name, tensor != nullptr && is_half(tensor->dtype()) ? StateDict::Value(tensor->to(DType::f32)) : chosen);
  }
  for (const auto& [name, value] : statistics.values()) merged.put(name, value);
  nn::load_state_dict(model, merged);
}

PrecisionPolicy policy_of(const StateDict& checkpoint) {
  return PrecisionPolicy::from_string(checkpoint.text("amp/policy"));
}

void load_weights(nn::Module& model, const std::string& path) {
  if (!path.ends_with(".safetensors")) return load_model(model, io::load_checkpoint(path).state);
  StateDict weights;
  for (const auto& [name, tensor] : io::read_safetensors(path).tensors) weights.put(name, tensor);
  nn::load_state_dict(model, weights);
}

void check_overrides(const PrecisionPolicy& policy, nn::Module& model, const Variable& output) {
  std::vector<std::string> names;
  for (const auto& [path, module] : nn::named_modules(model)) names.push_back(path);
  for (const RecordedOp& op : recorded_ops(output)) {
    names.push_back(op.op);
    names.push_back(op.module_path);
    names.push_back(fmt::format("{}/{}", op.module_path, op.op));
  }
  amp::check_overrides(policy, names);
}

std::string describe_modules(nn::Module& model, const Variable& output) {
  std::string text = "modules\n";
  for (const auto& [path, module] : nn::named_modules(model))
    text += fmt::format("  {:<36} {}\n", path.empty() ? "(root)" : path, module->kind());
  text += "parameters\n";
  for (const auto& [name, p] : nn::named_parameters(model))
    text += fmt::format("  {:<36} {}\n", name, p->shape().to_string());
  for (const auto& [name, b] : nn::named_buffers(model))
    text += fmt::format("  {:<36} {} (buffer)\n", name, b->value().shape().to_string());
  text += "ops\n";
  for (const RecordedOp& op : recorded_ops(output))
    text += fmt::format("  {:>4}  {:<30} {}\n", op.tape_index, op.module_path, op.op);
  return text + fmt::format("{} parameters\n", nn::count_parameters(model));
}

}  // namespace binade::examples
