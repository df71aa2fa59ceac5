#include "binade/core/ops/move.h"

#include "binade/cuda/register.h"
#include "binade/cuda/run.h"

namespace binade::cuda {
namespace {

void box(const ops::BoxCopy& copy) { run(Call::kBox, copy, "copy"); }
void permute(const ops::PermuteCopy& copy) { run(Call::kPermute, copy, "permute"); }

}  // namespace

void register_move() { ops::move_slot().fill(DeviceType::kCuda, {&box, &permute}); }

}  // namespace binade::cuda
