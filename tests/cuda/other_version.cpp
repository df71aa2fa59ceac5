#include "binade/cuda/api.h"
#include OTHER_ABI

/// A module whose lists of ops are not the library's: it must be refused with words.
extern "C" __attribute__((visibility("default"))) const binade::cuda::Api* binade_cuda_api() {
  static binade::cuda::Api api{};
  api.abi = binade::cuda::kAbi;
  return &api;
}
