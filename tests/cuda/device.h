#pragma once

#include "binade/core/device.h"

namespace binade {

/// The device that these tests run on: the emulated one where BINADE_CUDA_MODULE names it, else the first GPU. Where
/// there is neither, the program says so and runs no test.
Device test_device();

}  // namespace binade
