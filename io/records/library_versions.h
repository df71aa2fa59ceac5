#pragma once

#include <string>

namespace binade::io {

/// "1.10.8 (built against 1.10.8, threadsafe)"
std::string hdf5_version();
std::string json_version();

}  // namespace binade::io
