#pragma once

#include "binade/core/backend.h"

namespace binade {

/// Returns the CPU's backend. Blocks are cached by size; large blocks are mapped separately and request huge pages.
Backend& cpu_backend();

}  // namespace binade
