#pragma once

#include "binade/core/device.h"

namespace binade {

/// Returns the device under test: the emulated one if BINADE_CUDA_MODULE names it, otherwise the first GPU. Without
/// either, the program says so and runs no test.
Device test_device();

}  // namespace binade
