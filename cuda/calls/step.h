#pragma once

#include "binade/core/step_kernels.h"

namespace binade::cuda {

/// StepKernels (core/step_kernels.h) as calls. Spans lie in the host's memory; what they point at, and what the places
/// name, in the device's.
struct BeginStepCall {
  StepPlaces places;
};
struct DecideCall {
  StepPlaces places;
  DecideArguments what;
};
struct DecidedUpdateCall {
  StepPlaces places;
  UpdateArguments what;
};
struct DecidedAverageCall {
  StepPlaces places;
  AverageArguments what;
};
struct CommitCall {
  StepPlaces places;
  std::span<const MemoryCopy> what;
};
struct EndStepCall {};

}  // namespace binade::cuda
