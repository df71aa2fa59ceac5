#include "binade/cuda/api.h"
#include OTHER_ABI

/// A CUDA module whose lists of ops differ from those of the library. The library must refuse it with a message.
extern "C" __attribute__((visibility("default"))) const binade::cuda::Api* binade_cuda_api() {
  static binade::cuda::Api api{};
  api.abi = binade::cuda::kAbi;
  return &api;
}
