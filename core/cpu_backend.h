#pragma once

#include "binade/core/backend.h"

namespace binade {

/// The CPU's backend. Memory is kept and reused by size (a training step asks for the same blocks again and again);
/// large blocks are mapped on their own and ask for huge pages.
Backend& cpu_backend();

}  // namespace binade
