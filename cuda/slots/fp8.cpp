#include "binade/core/ops/fp8.h"

#include "binade/cuda/register.h"
#include "binade/cuda/run.h"

namespace binade::cuda {
namespace {

void round(const ops::Fp8Rounding& r) { run(Call::kFp8Round, r, "fp8"); }
void begin_step(float* amaxes, std::int64_t rows) { run(Call::kFp8BeginStep, Fp8BeginStepCall{amaxes, rows}, "fp8"); }
bool multiplies_codes(std::int64_t rows, std::int64_t inputs, std::int64_t outputs) {
  bool codes = false;
  run(Call::kFp8Choice, Fp8ChoiceCall{rows, inputs, outputs, &codes}, "fp8");
  return codes;
}
void encode(const ops::Fp8Encoding& e) { run(Call::kFp8Encode, e, "fp8"); }

}  // namespace

void register_fp8() { ops::fp8_slot().fill(DeviceType::kCuda, {&round, &begin_step, &multiplies_codes, &encode}); }

}  // namespace binade::cuda
