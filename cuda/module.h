#pragma once

#include <string>

#include "binade/cuda/api.h"

namespace binade::cuda {

/// The module, found and opened at the first question, or why there is none.
struct Module {
  const Api* api = nullptr;  ///< null: see `why_none`
  int devices = 0;
  std::string path;      ///< of the file that was opened
  std::string why_none;  ///< in words, with what to do; empty where api is there and devices > 0
};

/// The driver (libcuda.so.1) is looked for first: without one nothing else is opened. Then libbinade_cuda.so beside the
/// file that holds this code (libbinade), or in the folder that it was built in; or the file that the environment
/// variable BINADE_CUDA_MODULE names, for which no driver is asked. A file that other users could replace is refused
/// (core/code_file.h).
const Module& module();

}  // namespace binade::cuda
