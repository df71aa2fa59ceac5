#pragma once

#include <string>

#include "binade/cuda/api.h"

namespace binade::cuda {

/// The opened module, or the reason why there is none.
struct Module {
  const Api* api = nullptr;  ///< the functions of the module; null: see `why_none`
  int devices = 0;           ///< number of usable GPUs
  std::string path;          ///< path of the opened file
  std::string why_none;      ///< the reason, and what to do; empty if api is set and devices > 0
};

/// Looks for the driver (libcuda.so.1) first, and opens nothing else without one. Then it opens libbinade_cuda.so
/// beside the file that contains this code (libbinade); if there is none, in the folder cuda/ there, where the build
/// writes it. If the environment variable BINADE_CUDA_MODULE names a file, that file is opened instead,
/// without a check for a driver. A file that other users could replace is refused (core/code_file.h).
const Module& module();

}  // namespace binade::cuda
