#pragma once

#include <string>

#include "binade/core/state_dict.h"

namespace binade::amp {

/// Returns the sections "model" and "norm" of a state as nn::load_state_dict() takes them.
StateDict model_state(const StateDict& state);

/// Returns the name of the section of an optimizer's schedule; `optimizer`: its name, empty if it is the only one.
std::string section_of_schedule(const std::string& optimizer);

}  // namespace binade::amp
