#include "binade/cuda/module.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "binade/core/code_file.h"
#include "binade/core/error.h"
#include "cuda/abi.h"

namespace binade::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "libbinade_cuda.so";

/// Returns the paths at which the module is searched: beside the file that contains this code, and in the folder cuda/
/// there, where the build writes it. No absolute path is compiled in: an installed library must not open a file of the
/// machine or user that built it.
std::vector<fs::path> places() {
  const fs::path folder = folder_of_library();
  if (folder.empty()) return {};
  return {folder / kFileName, folder / "cuda" / kFileName};
}

/// Opens `path` into `found`, or stores in it the reason why that failed.
void open_module(Module& found, const fs::path& path) {
  found.path = path.string();
  if (const std::string why = why_not_executable(found.path); !why.empty()) {
    found.why_none = "the CUDA backend is not loaded: " + why;
    return;
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    found.why_none = fmt::format("{} could not be opened: {}", path.string(), why != nullptr ? why : "no reason given");
    return;
  }
  const auto function = reinterpret_cast<ApiFunction>(dlsym(library, kApiSymbol));
  const Api* api = function != nullptr ? function() : nullptr;
  if (api == nullptr || api->abi != kAbi) {
    found.why_none = fmt::format(
        "{} was built of another version of Binade: its ops and argument structs are {:016x}, this library's {:016x}; "
        "build it again, of the same sources as the library",
        path.string(), api != nullptr ? api->abi : 0, kAbi);
    return;
  }
  int devices = 0;
  if (api->count(&devices) != Status::kOk) {
    found.why_none = api->last_error();
    return;
  }
  if (devices == 0) {
    found.why_none = "the driver reports no GPU (CUDA_VISIBLE_DEVICES may hide them)";
    return;
  }
  found.api = api;
  found.devices = devices;
}

Module find() {
  Module found;
  if (const char* named = std::getenv("BINADE_CUDA_MODULE"); named != nullptr && *named != '\0') {
    open_module(found, named);
    return found;
  }
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    found.why_none = "no NVIDIA driver (libcuda.so.1) was found";
    return found;
  }
  std::string tried = folder_of_library().empty() ? "libbinade's folder, which is unknown" : "";
  for (const fs::path& place : places()) {
    std::error_code ignored;
    if (fs::exists(place, ignored)) {
      open_module(found, place);
      return found;
    }
    tried += (tried.empty() ? "" : ", ") + place.parent_path().string();
  }
  found.why_none = fmt::format(
      "this build has no CUDA backend ({} is not in {}); build where nvcc, cuBLASLt and cuDNN are", kFileName, tried);
  return found;
}

}  // namespace

const Module& module() {
  static const Module* found = new Module(find());  // never destroyed: tensors may outlive static objects
  return *found;
}

}  // namespace binade::cuda
