#pragma once

#include "binade/core/kernels/table.h"

/// The CPU's kernels: each cuts its work by size alone, gives it to all threads and calls the loops of the level that
/// is selected (core/kernels/dispatch.h).
namespace binade::cpu {

#define BINADE_DECLARE(name, Args) void run_##name(const Args& a);
BINADE_KERNELS(BINADE_DECLARE)
#undef BINADE_DECLARE

}  // namespace binade::cpu
