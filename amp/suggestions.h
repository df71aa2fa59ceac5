#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "binade/core/dtype.h"

// Changes of a run's settings that incidents, warnings and pre-flight suggest. Each function returns the change as the
// user writes it: a flag, if the program has it (core/program_flags.h), otherwise a C++ statement without the
// semicolon, in which `options` are the TrainerOptions and `optimizer` is the optimizer. Both can be copied as they
// are.
namespace binade::amp {

/// Suggests computing the ops that an override names ("PATH/op", PrecisionPolicy::Override) in f32, f16 or bf16.
std::string suggest_dtype(std::string_view target, DType dtype);
/// Suggests computing everything in f32.
std::string suggest_f32();
/// Suggests keeping f32 masters of 16-bit weights.
std::string suggest_masters();
std::string suggest_dynamic_loss_scale();
std::string suggest_loss_scale(double scale);
/// Suggests clipping gradients by their norm.
std::string suggest_clipping();
/// Suggests raising the learning rate linearly from 0 in the first steps.
std::string suggest_warmup();
/// Suggests dividing a batch into micro-batches.
std::string suggest_micro_batches(std::int64_t samples, std::int64_t micro_batches);
/// Suggests recomputing activations in backward instead of keeping them.
std::string suggest_recompute();
/// Suggests computing attention with the one op that keeps its logits in f32.
std::string suggest_fused_attention();

}  // namespace binade::amp
