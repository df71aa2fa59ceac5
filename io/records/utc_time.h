#pragma once

#include <string>

namespace binade::io {

/// "2026-11-22T03:45:06Z": for people. Nothing is decided by the clock.
std::string utc_now();

}  // namespace binade::io
