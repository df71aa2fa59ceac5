#include "binade/core/ops/max_pool2d.h"
#include "binade/cuda/register.h"
#include "binade/cuda/run.h"

namespace binade::cuda {

void register_pool() {
  ops::pool_slot().fill(DeviceType::kCuda,
                        {[](const cpu::MaxPool& a) { run(Call::kMaxPoolForward, a, ops::MaxPool2d::info.name); },
                         [](const cpu::MaxPool& a) { run(Call::kMaxPoolBackward, a, ops::MaxPool2d::info.name); },
                         [](const cpu::Resample& a) { run(Call::kResample, a, "resample"); }});
}

}  // namespace binade::cuda
