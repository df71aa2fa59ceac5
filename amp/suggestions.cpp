#include "binade/amp/suggestions.h"

#include <fmt/core.h>

#include "binade/core/program_flags.h"

namespace binade::amp {
namespace {

/// Returns the name of a dtype in flags and presets.
std::string_view precision_of(DType dtype) {
  if (dtype == DType::f16) return "fp16";
  return dtype == DType::bf16 ? "bf16" : "fp32";
}

}  // namespace

std::string suggest_dtype(std::string_view target, DType dtype) {
  return flag_or("override", fmt::format("'{}={}'", target, precision_of(dtype)),
                 fmt::format("options.precision = options.precision.with(\"{}\", DType::{})", target, name_of(dtype)));
}

std::string suggest_f32() { return flag_or("precision", "fp32", "options.precision = amp::Policy::fp32()"); }

std::string suggest_masters() { return flag_or("precision", "bf16", "options.precision = amp::Policy::bf16()"); }

std::string suggest_dynamic_loss_scale() {
  return flag_or("loss-scale", "dynamic", "options.loss_scale = amp::LossScaleOptions::dynamic()");
}

std::string suggest_loss_scale(double scale) {
  const std::string number = fmt::format("{:.17g}", scale);
  return flag_or("loss-scale", number, fmt::format("options.loss_scale = amp::LossScaleOptions::fixed({})", number));
}

std::string suggest_clipping() { return flag_or("clip", "1", "options.clip_norm = 1"); }

std::string suggest_warmup() {
  return flag_or("warmup", "1000", "options.schedule = optim::Schedule::constant(optimizer.lr(), 1000)");
}

std::string suggest_micro_batches(std::int64_t samples, std::int64_t micro_batches) {
  if (has_program_flag("batch") && has_program_flag("accumulate"))
    return fmt::format("--batch {} and --accumulate {} times as large", samples, micro_batches);
  return fmt::format("batches of {} samples and options.accumulate = {}", samples, micro_batches);
}

std::string suggest_recompute() { return flag_or("recompute", "", "x = recompute(block, x)"); }

std::string suggest_fused_attention() { return flag_or("attention", "fused", "y = attention(q, k, v)"); }

}  // namespace binade::amp
