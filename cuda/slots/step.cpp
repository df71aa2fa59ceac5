#include "binade/core/step_kernels.h"
#include "binade/cuda/register.h"
#include "binade/cuda/run.h"

namespace binade::cuda {
namespace {

void begin(const StepPlaces& places) { run(Call::kBeginStep, BeginStepCall{places}, "step"); }
void decide(const StepPlaces& places, const DecideArguments& a) {
  run(Call::kDecide, DecideCall{places, a}, "verdict");
}
void update(const StepPlaces& places, const UpdateArguments& a) {
  run(Call::kDecidedUpdate, DecidedUpdateCall{places, a}, "update");
}
void average(const StepPlaces& places, const AverageArguments& a) {
  run(Call::kDecidedAverage, DecidedAverageCall{places, a}, "moving average");
}
void commit(const StepPlaces& places, std::span<const MemoryCopy> a) {
  run(Call::kCommit, CommitCall{places, a}, "commit");
}
void end(const StepPlaces&) { run(Call::kEndStep, EndStepCall{}, "step"); }

}  // namespace

void register_step() { step_kernels().fill(DeviceType::kCuda, {&begin, &decide, &update, &average, &commit, &end}); }

}  // namespace binade::cuda
