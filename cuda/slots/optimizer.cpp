#include "binade/core/optimizer_kernels.h"
#include "binade/cuda/register.h"
#include "binade/cuda/run.h"

namespace binade::cuda {
namespace {

void scan(const ScanArguments& a) { run(Call::kScan, a, "gradient scan"); }
void update(const UpdateArguments& a) { run(Call::kUpdate, a, "update"); }
void average(const AverageArguments& a) { run(Call::kAverage, a, "moving average"); }
void limit(const LimitArguments& a) { run(Call::kLimit, a, "clipping"); }
void limit_units(const UnitLimitArguments& a) { run(Call::kLimitUnits, a, "clipping"); }

}  // namespace

void register_optimizer() {
  optimizer_kernels().fill(DeviceType::kCuda, {&scan, &update, &average, &limit, &limit_units});
}

}  // namespace binade::cuda
