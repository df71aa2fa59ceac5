#pragma once

#include "binade/core/kernels/pool.h"

namespace binade::cuda {

/// core/kernels/pool.h says what they compute. The taps of a resample are the host's.
using MaxPoolCall = cpu::MaxPool;
using ResampleCall = cpu::Resample;

}  // namespace binade::cuda
