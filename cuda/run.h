#pragma once

#include <cstddef>
#include <string_view>

#include "binade/cuda/calls.h"

namespace binade::cuda {

namespace detail {
void run(Call call, const void* arguments, std::size_t bytes, std::string_view what);
}

/// Starts the kernels of one call on the open device. Throws DeviceLostError, OutOfMemoryError, DataError or
/// DeviceError with the module's words; `what` begins them.
template <class Arguments>
void run(Call call, const Arguments& arguments, std::string_view what) {
  detail::run(call, &arguments, sizeof arguments, what);
}

}  // namespace binade::cuda
