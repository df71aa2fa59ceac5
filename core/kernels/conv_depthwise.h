#pragma once

#include "binade/core/kernels/conv.h"
#include "binade/core/kernels/simd.h"

/// Depthwise convolutions: each channel has its own filter. Only for sources in `kernel_sources` (meson.build).
namespace binade::cpu::BINADE_ISA {

/// True if every group has one channel and one filter. A register tile of such a group would be almost empty;
/// neighboring channels fill a vector instead.
inline bool is_depthwise(const ConvShape& s) { return s.groups > 1 && s.channels == s.groups && s.filters == s.groups; }

/// Computes y or gx (ConvArgs), or gw (ConvWeightArgs). REQUIRES is_depthwise() and at least one result.
void depthwise_conv(const ConvArgs& args);
void depthwise_weight_gradient(const ConvWeightArgs& args);

}  // namespace binade::cpu::BINADE_ISA
