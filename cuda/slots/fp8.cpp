#include "core/ops/fp8.h"

#include "cuda/register.h"
#include "cuda/run.h"

namespace binade::cuda {
namespace {

void round(const ops::Fp8Rounding& r) { run(Call::kFp8Round, r, "fp8"); }
void begin_step(float* amaxes, std::int64_t rows) { run(Call::kFp8BeginStep, Fp8BeginStepCall{amaxes, rows}, "fp8"); }

}  // namespace

void register_fp8() { ops::fp8_slot().fill(DeviceType::kCuda, {&round, &begin_step}); }

}  // namespace binade::cuda
