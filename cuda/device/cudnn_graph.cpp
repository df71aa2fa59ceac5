#include "binade/cuda/device/cudnn_graph.h"

#include <algorithm>

#include "binade/cuda/device/failure.h"

namespace binade::cuda {
namespace {

Status status_of(cudnnStatus_t status) {
  if (status == CUDNN_STATUS_ALLOC_FAILED) return Status::kNoMemory;
  if (status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000) return Status::kUnsupported;
  return Status::kFailed;
}

std::string reason_of(cudnnStatus_t status, const char* what) {
  std::array<char, 512> text{};
  cudnnGetLastErrorString(text.data(), text.size());
  return std::string("cuDNN, ") + what + ": " + cudnnGetErrorString(status) + (text[0] != '\0' ? ", " : "") +
         text.data();
}

}  // namespace

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return CUDNN_DATA_HALF;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    case DType::f64: return CUDNN_DATA_DOUBLE;
    default: return CUDNN_DATA_FLOAT;
  }
}

void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) throw Failure(status_of(status), reason_of(status, what));
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check(cudnnBackendCreateDescriptor(type, &raw_), "cudnnBackendCreateDescriptor");
}
Descriptor::~Descriptor() {
  if (raw_ != nullptr) cudnnBackendDestroyDescriptor(raw_);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                            const void* values) {
  check(cudnnBackendSetAttribute(raw_, name, type, count, values), "cudnnBackendSetAttribute");
  return *this;
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, std::initializer_list<std::int64_t> values) {
  return set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.begin());
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t other) {
  return set_one(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other);
}

Descriptor& Descriptor::finalize() {
  check(cudnnBackendFinalize(raw_), "cudnnBackendFinalize");
  return *this;
}
bool Descriptor::finalized() {
  const cudnnStatus_t status = cudnnBackendFinalize(raw_);
  if (status == CUDNN_STATUS_SUCCESS) return true;
  // Engines report an unsupported graph by several statuses. Only statuses that have nothing to do with the graph are
  // errors.
  if (status == CUDNN_STATUS_ALLOC_FAILED || status == CUDNN_STATUS_NOT_INITIALIZED) check(status, "a plan");
  return false;
}

std::int64_t Descriptor::integer(cudnnBackendAttributeName_t name) const { return integers(name, 1).at(0); }
std::vector<std::int64_t> Descriptor::integers(cudnnBackendAttributeName_t name, std::int64_t count) const {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  std::int64_t had = 0;
  check(cudnnBackendGetAttribute(raw_, name, CUDNN_TYPE_INT64, count, &had, values.data()), "cudnnBackendGetAttribute");
  values.resize(static_cast<std::size_t>(std::min(had, count)));
  return values;
}

Descriptor tensor(const TensorFacts& facts) {
  Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set_one(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, facts.type);
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, facts.extents.data());
  t.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, facts.strides.data());
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {facts.id});
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {facts.alignment});
  if (facts.is_virtual) t.set_one(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
  if (facts.is_by_value) t.set_one(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, true);
  t.finalize();
  return t;
}

void OperationGraph::finalize(const std::vector<cudnnBackendDescriptor_t>& operations, cudnnHandle_t handle) {
  if (handle != nullptr) graph.set_one(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(operations.size()),
            operations.data());
  graph.finalize();
}

}  // namespace binade::cuda
