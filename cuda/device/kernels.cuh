#pragma once

#include "binade/core/kernels/table.h"

/// The module's kernels: `run_NAME` for every line of the table, defined in the file of its family. Each of these
/// functions starts kernels on the context's stream and returns, or throws Failure. The symbols are weak, so the
/// address of a kernel that no file defines is null, and the module tells the library that this kernel is missing.
namespace binade::cuda {

#define BINADE_DECLARE(name, Args) __attribute__((weak)) void run_##name(const Args& args);
BINADE_KERNELS(BINADE_DECLARE)
BINADE_DEVICE_KERNELS(BINADE_DECLARE)
#undef BINADE_DECLARE

}  // namespace binade::cuda
