#include "binade/io/checkpoint/health.h"

#include <cmath>

namespace binade::io {

namespace {

/// Returns the index of the first element whose exponent bits are all ones, or -1. The inner loop has no branch, so
/// that the compiler vectorizes it.
template <class Bits>
std::int64_t first_bad(const void* data, std::int64_t count, Bits exponent) {
  const auto* x = static_cast<const Bits*>(data);
  constexpr std::int64_t kBlock = 4096;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(count, begin + kBlock);
    bool bad = false;
    for (std::int64_t i = begin; i < end; ++i) bad |= (x[i] & exponent) == exponent;
    if (!bad) continue;
    for (std::int64_t i = begin; i < end; ++i)
      if ((x[i] & exponent) == exponent) return i;
  }
  return -1;
}

std::int64_t first_bad(const Tensor& t) {
  if (t.numel() == 0) return -1;
  switch (t.dtype()) {
    case DType::f16: return first_bad<std::uint16_t>(t.raw(), t.numel(), 0x7c00);
    case DType::bf16: return first_bad<std::uint16_t>(t.raw(), t.numel(), 0x7f80);
    case DType::f32: return first_bad<std::uint32_t>(t.raw(), t.numel(), 0x7f800000u);
    case DType::f64: return first_bad<std::uint64_t>(t.raw(), t.numel(), 0x7ff0000000000000u);
    default: return -1;
  }
}

}  // namespace

std::optional<std::string> first_non_finite(const StateDict& state) {
  for (const auto& [name, value] : state.values()) {
    if (const auto* tensor = std::get_if<Tensor>(&value)) {
      const Tensor host = tensor->on_host();
      if (const std::int64_t i = first_bad(host); i >= 0)
        return fmt::format("{} holds {} at element {}", name, host.at(i), i);
    } else if (const auto* number = std::get_if<double>(&value)) {
      if (!std::isfinite(*number)) return fmt::format("{} is {}", name, *number);
    } else if (const auto* numbers = std::get_if<StateDict::Numbers>(&value)) {
      for (std::size_t i = 0; i < numbers->size(); ++i)
        if (!std::isfinite((*numbers)[i])) return fmt::format("{} holds {} at element {}", name, (*numbers)[i], i);
    }
  }
  return std::nullopt;
}

}  // namespace binade::io
