#pragma once

#include <vector>

#include "binade/optim/flat_parameters.h"

namespace binade::optim {

/// The parameters of several optimizers, in the order of the optimizers. Valid as long as these exist.
using ParameterList = std::vector<const FlatParameters::Slice*>;

inline void append(ParameterList& list, const FlatParameters& parameters) {
  for (const FlatParameters::Slice& slice : parameters.slices()) list.push_back(&slice);
}

}  // namespace binade::optim
