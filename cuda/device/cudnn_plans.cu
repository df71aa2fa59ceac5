#include "binade/cuda/device/cudnn_plans.cuh"

namespace binade::cuda {

cudnnHandle_t cudnn_handle() {
  static const cudnnHandle_t handle = [] {
    cudnnHandle_t made = nullptr;
    check(cudnnCreate(&made), "cudnnCreate");
    check(cudnnSetStream(made, context().stream), "cudnnSetStream");
    return made;
  }();
  return handle;
}

std::mutex& cudnn_mutex() {
  static std::mutex* const only = new std::mutex;  // never destroyed, like the objects that use it
  return *only;
}

void execute(const EnginePlan& plan, const std::vector<PlanTensor>& tensors, const char* what) {
  std::vector<std::int64_t> ids;
  std::vector<const void*> data;
  for (const PlanTensor& t : tensors) {
    ids.push_back(t.id);
    data.push_back(t.data);
  }
  const auto count = static_cast<std::int64_t>(tensors.size());
  const Buffer<char> workspace(plan.workspace);
  const void* const at = workspace.data();
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &at);
  pack.finalize();
  check(cudnnBackendExecute(cudnn_handle(), plan.plan.raw(), pack.raw()), what);
}

}  // namespace binade::cuda
