#include "binade/core/ops/fp8.h"

#include "binade/core/kernels/table.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

constexpr const char* kName = "fp8";
constexpr int kRow = 1 + kFp8Window;
/// Returns the kernel arguments that round `x`, without the result.
Fp8Rounding rounding_of(const Tensor& x, Fp8Operand operand, const Fp8Scaling& scaling) {
  check<DTypeError>(x.dtype() == DType::bf16, "{}: wanted bf16, got {}", where(kName), name_of(x.dtype()));
  Fp8Rounding r{.format = format_of(operand),
                .rows = x.shape().rows(),
                .cols = x.shape().cols(),
                .pitch = x.pitch(),
                .x = x.raw()};
  if (!scaling.amaxes.defined() || x.numel() == 0) return r;
  Tensor amaxes = scaling.amaxes;
  check<DeviceError>(amaxes.device() == x.device(), "{}: wanted the history on {}, where the operand is, got {}",
                     where(kName), x.device(), amaxes.device());
  float* const now = amaxes.mutable_data<float>() + static_cast<int>(operand) * kRow;
  r.history = scaling.record ? now + 1 : now;
  r.record = scaling.record ? now : nullptr;
  return r;
}

}  // namespace

Tensor fp8_amaxes(Device device) { return Tensor::zeros({3, kRow}, DType::f32, device); }

void begin_fp8_step(Tensor& amaxes) {
  kernels(amaxes.device()).fp8_begin_step({amaxes.mutable_data<float>(), amaxes.dim(0)});
}

Tensor round_to_fp8(const Tensor& x, Fp8Operand operand, const Fp8Scaling& scaling) {
  Fp8Rounding r = rounding_of(x, operand, scaling);
  Tensor y = Tensor::empty(x.shape(), DType::bf16, x.device());
  if (x.numel() == 0) return y;
  r.y = y.mutable_raw();
  kernels(x.device()).fp8_round(r);
  return y;
}

bool multiplies_fp8_codes(Device device, std::int64_t rows, std::int64_t inputs, std::int64_t outputs) {
  bool codes = false;
  if (const auto& choice = kernels(device).fp8_choice) choice({rows, inputs, outputs, &codes});
  return codes;
}

Fp8Codes encode_to_fp8(const Tensor& x, Fp8Operand operand, const Fp8Scaling& scaling, bool rows, bool columns) {
  Fp8Encoding e{.rounding = rounding_of(x, operand, scaling)};
  const std::int64_t m = e.rounding.rows, k = e.rounding.cols;
  Fp8Codes codes{.rows = {}, .columns = {}, .scale = Tensor::empty({}, DType::f32, x.device())};
  e.scale = codes.scale.mutable_data<float>();
  if (rows) codes.rows = Tensor::empty({m, k}, DType::u8, x.device());
  if (columns) codes.columns = Tensor::empty({k, m}, DType::u8, x.device());
  if (rows) e.rows = codes.rows.mutable_data<std::uint8_t>();
  if (columns) e.columns = codes.columns.mutable_data<std::uint8_t>();
  kernels(x.device()).fp8_encode(e);
  return codes;
}

}  // namespace binade::ops
