#include "binade/cuda/api.h"

/// A module of another version of Binade: the library must refuse it with words.
extern "C" __attribute__((visibility("default"))) const binade::cuda::Api* binade_cuda_api() {
  static binade::cuda::Api api{};
  api.abi = binade::cuda::kAbi + 1;
  return &api;
}
