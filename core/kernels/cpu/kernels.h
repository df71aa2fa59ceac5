#pragma once

#include "binade/core/kernels/table.h"

/// The CPU's kernels. Each divides its work by size alone, distributes it over all threads and calls the loops of the
/// selected level (core/kernels/dispatch.h).
namespace binade::cpu {

#define BINADE_DECLARE(name, Args) void run_##name(const Args& a);
BINADE_KERNELS(BINADE_DECLARE)
#undef BINADE_DECLARE

}  // namespace binade::cpu
