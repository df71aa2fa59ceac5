#include "binade/core/ops/batch_norm.h"
#include "binade/core/ops/group_norm.h"
#include "binade/core/ops/row_norm.h"
#include "binade/cuda/register.h"
#include "binade/cuda/run.h"

namespace binade::cuda {

void register_norm() {
  ops::row_norm_slot().fill(DeviceType::kCuda,
                            {[](const cpu::RowNormForward& a) { run(Call::kRowNormForward, a, "norm"); },
                             [](const cpu::RowNormBackward& a) { run(Call::kRowNormBackward, a, "norm"); }});
  ops::batch_norm_slot().fill(DeviceType::kCuda,
                              {[](const ops::BatchNormForward& a) { run(Call::kBatchNormForward, a, "batch_norm"); },
                               [](const ops::BatchNormBackward& a) { run(Call::kBatchNormBackward, a, "batch_norm"); },
                               [](const ops::MoveStatistics& a) { run(Call::kMoveStatistics, a, "batch_norm"); }});
  ops::group_norm_slot().fill(
      DeviceType::kCuda, {[](const ops::GroupNormForward& a) { run(Call::kGroupNormForward, a, "group_norm"); },
                          [](const ops::GroupNormBackward& a) { run(Call::kGroupNormBackward, a, "group_norm"); }});
}

}  // namespace binade::cuda
