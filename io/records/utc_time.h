#pragma once

#include <string>

namespace binade::io {

/// Returns the time as "2026-11-22T03:45:06Z", for display only: no behavior depends on the clock.
std::string utc_now();

}  // namespace binade::io
