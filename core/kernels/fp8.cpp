#include "binade/core/kernels/fp8.h"

namespace binade::cpu::BINADE_ISA {
namespace {

// The loops have no branches, so that the compiler vectorizes them.

template <Float8 kFormat>
void round_to(int exponent, const bfloat16* x, bfloat16* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = bfloat16::from_float(through_float8(x[i].to_float(), exponent, kFormat));
}

void round(Float8 format, int exponent, const bfloat16* x, bfloat16* y, std::int64_t n) {
  if (format == Float8::e4m3) return round_to<Float8::e4m3>(exponent, x, y, n);
  return round_to<Float8::e5m2>(exponent, x, y, n);
}

bfloat16 largest(const bfloat16* x, std::int64_t n) {
  constexpr int kInfinity = 0x7f80;
  int bits = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const int magnitude = x[i].bits & 0x7fff;
    const int finite = magnitude < kInfinity ? magnitude : 0;
    bits = finite > bits ? finite : bits;
  }
  return {static_cast<std::uint16_t>(bits)};
}

}  // namespace

const Fp8RowKernels& fp8_row_kernels() {
  static constexpr Fp8RowKernels kernels{&round, &largest};
  return kernels;
}

}  // namespace binade::cpu::BINADE_ISA
