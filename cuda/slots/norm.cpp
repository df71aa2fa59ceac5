#include "core/ops/row_norm.h"
#include "cuda/register.h"
#include "cuda/run.h"

namespace binade::cuda {

void register_norm() {
  ops::row_norm_slot().fill(DeviceType::kCuda,
                            {[](const cpu::RowNormForward& a) { run(Call::kRowNormForward, a, "norm"); },
                             [](const cpu::RowNormBackward& a) { run(Call::kRowNormBackward, a, "norm"); }});
}

}  // namespace binade::cuda
