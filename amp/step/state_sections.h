#pragma once

#include <string>

#include "binade/autograd/variable.h"
#include "binade/core/state_dict.h"

// How the sections of a run's state are named, and converted for a run with other settings.
namespace binade::amp {

/// Describes a policy that a checkpoint stores as text: "fp16 with head=f32". Throws CheckpointError if it is damaged.
std::string description_of(const std::string& policy);

/// True for the amax histories of fp8 products (nn/linear.h). Only runs in fp8 have them.
bool is_fp8_history(const std::string& entry);

/// Returns `value` in the dtype of `parameter`, whose entry is called `name`. Throws CheckpointError if that dtype
/// cannot hold it.
Tensor stored_as(const Tensor& value, const Variable& parameter, const std::string& name);

/// Returns `state` with its data section replaced by `data`.
StateDict with_data(const StateDict& state, const StateDict& data);

/// Returns `cursor` with the quarantine of `newer`.
StateDict with_quarantine(const StateDict& cursor, const StateDict& newer);

/// Returns the sections "model" and "norm" of a state as nn::load_state_dict() takes them.
StateDict model_state(const StateDict& state);

/// Returns the name of the section of an optimizer's schedule; `optimizer`: its name, empty if it is the only one.
std::string section_of_schedule(const std::string& optimizer);

}  // namespace binade::amp
