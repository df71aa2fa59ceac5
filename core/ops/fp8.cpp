#include "binade/core/ops/fp8.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/parallel.h"
#include "binade/core/step_context.h"

namespace binade::ops {
namespace {

constexpr const char* kName = "fp8";
constexpr int kRow = 1 + kFp8Window;
constexpr std::int64_t kGrain = 8192;

/// f(from, to, n) for the pieces of each row between elements `begin` and `end`.
template <class F>
void each_piece(const Fp8Rounding& r, std::int64_t begin, std::int64_t end, F&& f) {
  while (begin < end) {
    const std::int64_t row = begin / r.cols, n = std::min(end, (row + 1) * r.cols) - begin;
    f(static_cast<const bfloat16*>(r.x) + row * r.pitch + begin % r.cols, static_cast<bfloat16*>(r.y) + begin, n);
    begin += n;
  }
}

/// Runs f(from, to, n) over all of x; the largest finite magnitude in it.
template <class F>
float largest_over(const Fp8Rounding& r, const F& f) {
  const std::int64_t count = r.rows * r.cols;
  std::vector<float> largest(static_cast<std::size_t>((count + kGrain - 1) / kGrain), 0);
  parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    float& here = largest[static_cast<std::size_t>(begin / kGrain)];
    each_piece(r, begin, end, [&](const bfloat16* from, bfloat16* to, std::int64_t n) {
      here = std::max(here, cpu::kernels().fp8.largest(from, n).to_float());
      f(from, to, n);
    });
  });
  return largest.empty() ? 0 : *std::ranges::max_element(largest);
}

/// A history that a fault has reached does not decide.
float largest_in(const float* history) {
  float largest = 0;
  for (int i = 0; history != nullptr && i < kFp8Window; ++i)
    if (history[i] > largest && std::bit_cast<std::uint32_t>(history[i]) < 0x7f800000u) largest = history[i];
  return largest;
}

void round_cpu(const Fp8Rounding& r) {
  float amax = largest_in(r.history);
  if (amax == 0) amax = largest_over(r, [](const bfloat16*, bfloat16*, std::int64_t) {});
  const int exponent = scale_exponent(amax, r.format);
  const float seen = largest_over(r, [&](const bfloat16* from, bfloat16* to, std::int64_t n) {
    cpu::kernels().fp8.round(r.format, exponent, from, to, n);
  });
  if (r.record != nullptr && !(seen <= *r.record)) *r.record = seen;
}

void begin_step_cpu(float* amaxes, std::int64_t rows) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float* const first = amaxes + row * kRow;
    std::copy_backward(first, first + kFp8Window, first + kRow);
    *first = 0;
  }
}

/// All but y.
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

KernelSlot<Fp8Kernels>& fp8_slot() {
  static KernelSlot<Fp8Kernels> slot;
  return slot;
}

void register_fp8_cpu() { fp8_slot().fill(DeviceType::kCpu, {&round_cpu, &begin_step_cpu}); }

Tensor fp8_amaxes(Device device) { return Tensor::zeros({3, kRow}, DType::f32, device); }

void begin_fp8_step(Tensor& amaxes) {
  fp8_slot().on(amaxes.device(), kName).begin_step(amaxes.mutable_data<float>(), amaxes.dim(0));
}

Tensor round_to_fp8(const Tensor& x, Fp8Operand operand, const Fp8Scaling& scaling) {
  Fp8Rounding r = rounding_of(x, operand, scaling);
  Tensor y = Tensor::empty(x.shape(), DType::bf16, x.device());
  if (x.numel() == 0) return y;
  r.y = y.mutable_raw();
  fp8_slot().on(x.device(), kName).round(r);
  return y;
}

bool multiplies_fp8_codes(Device device, std::int64_t rows, std::int64_t inputs, std::int64_t outputs) {
  const Fp8Kernels& kernels = fp8_slot().on(device, kName);
  return kernels.multiplies_codes != nullptr && kernels.multiplies_codes(rows, inputs, outputs);
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
  fp8_slot().on(x.device(), kName).encode(e);
  return codes;
}

}  // namespace binade::ops
