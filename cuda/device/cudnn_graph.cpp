#include "cuda/device/cudnn_graph.h"

#include <algorithm>
#include <array>

#include "cuda/device/failure.h"

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

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return CUDNN_DATA_HALF;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    case DType::f64: return CUDNN_DATA_DOUBLE;
    default: return CUDNN_DATA_FLOAT;
  }
}

using Four = std::array<std::int64_t, 4>;  // in cuDNN's order: N, C, H, W; K, C, R, S

struct TensorFacts {
  ConvTensor id;
  DType dtype;
  Four extents, strides;
  int alignment;
  bool is_virtual = false;
};

Descriptor tensor(const TensorFacts& facts) {
  Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set_one(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(facts.dtype));
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, facts.extents.data());
  t.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, facts.strides.data());
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {facts.id});
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {facts.alignment});
  if (facts.is_virtual) t.set_one(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, true);
  t.finalize();
  return t;
}

/// Images whose pixels lie `pitch` apart: a channel slice has a pitch beyond its channels.
TensorFacts pixels(ConvTensor id, DType dtype, const Four& extents, std::int64_t pitch, int alignment) {
  return {id, dtype, extents, {extents[2] * extents[3] * pitch, 1, extents[3] * pitch, pitch}, alignment};
}

TensorFacts x_facts(const ConvKey& key, DType dtype) {
  const cpu::ConvShape& s = key.shape;
  return pixels(kTensorX, dtype, {s.images, s.channels, s.height, s.width}, key.x_pitch, key.x_alignment);
}
TensorFacts y_facts(const ConvKey& key, DType dtype) {
  const cpu::ConvShape& s = key.shape;
  return pixels(kTensorY, dtype, {s.images, s.filters, s.out_height, s.out_width}, key.y_pitch, key.y_alignment);
}
TensorFacts w_facts(const ConvKey& key, DType dtype) {
  const cpu::ConvShape& s = key.shape;
  const std::int64_t channels = s.channels / s.groups;  // fewer than x has: cuDNN infers the groups
  return pixels(kTensorW, dtype, {s.filters, channels, s.filter_height, s.filter_width}, channels, key.w_alignment);
}

/// f32 sums in the shape of `result`, which never reach memory.
TensorFacts sums_like(const TensorFacts& result) {
  TensorFacts sums = pixels(kTensorSums, DType::f32, result.extents, result.extents[1], 16);
  sums.is_virtual = true;
  return sums;
}

Descriptor convolution(const cpu::ConvShape& s) {
  Descriptor c(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  c.set_one(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  c.set_one(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  c.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2});
  c.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {s.dilation[0], s.dilation[1]});
  c.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {s.stride[0], s.stride[1]});
  c.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {s.padding[0], s.padding[1]});
  c.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {s.padding[0], s.padding[1]});
  c.finalize();
  return c;
}

/// How cuDNN names the parts of one of the three operations.
struct Operation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, x, w, y;
};
Operation operation_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case ConvPass::kDataGradient:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case ConvPass::kWeightGradient: break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

}  // namespace

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
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& other) {
  return set_one(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.raw());
}

Descriptor& Descriptor::finalize() {
  check(cudnnBackendFinalize(raw_), "cudnnBackendFinalize");
  return *this;
}
bool Descriptor::finalized() {
  const cudnnStatus_t status = cudnnBackendFinalize(raw_);
  if (status == CUDNN_STATUS_SUCCESS) return true;
  // Engines refuse what they cannot do in several words; only what is not about this graph is an error.
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

ConvGraph conv_graph(const ConvKey& key, ConvForm form) {
  const TensorFacts x = x_facts(key, key.pass == ConvPass::kDataGradient ? key.out : key.in);
  const TensorFacts w = w_facts(key, key.pass == ConvPass::kWeightGradient ? key.out : key.in);
  const TensorFacts y = y_facts(key, key.pass == ConvPass::kForward ? key.out : key.in);
  const TensorFacts& result = key.pass == ConvPass::kForward ? y : key.pass == ConvPass::kDataGradient ? x : w;

  ConvGraph g;
  g.parts.reserve(8);  // references stay valid
  const auto keep = [&g](Descriptor&& d) -> const Descriptor& { return g.parts.emplace_back(std::move(d)); };
  const Descriptor& tx = keep(tensor(x));
  const Descriptor& tw = keep(tensor(w));
  const Descriptor& ty = keep(tensor(y));
  const Descriptor& to = result.id == kTensorX ? tx : result.id == kTensorW ? tw : ty;
  const Descriptor& sums = form == ConvForm::kDirect ? to : keep(tensor(sums_like(result)));

  const Operation names = operation_of(key.pass);
  Descriptor operation(names.type);
  operation.set_one(names.alpha, CUDNN_TYPE_DOUBLE, 1.0);
  operation.set_one(names.beta, CUDNN_TYPE_DOUBLE, 0.0);
  operation.set(names.convolution, keep(convolution(key.shape)));
  operation.set(names.x, &tx == &to ? sums : tx);
  operation.set(names.w, &tw == &to ? sums : tw);
  operation.set(names.y, &ty == &to ? sums : ty);
  operation.finalize();
  std::vector<cudnnBackendDescriptor_t> operations{keep(std::move(operation)).raw()};

  if (form == ConvForm::kThroughFloat) {
    Descriptor mode(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    mode.set_one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE,
                 key.bias ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_IDENTITY);
    mode.set_one(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    mode.finalize();
    Descriptor pointwise(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(std::move(mode)));
    pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sums);
    if (key.bias) {
      const std::int64_t channels = result.extents[1];
      pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                    keep(
                        tensor({kTensorBias, DType::f32, {1, channels, 1, 1}, {channels, 1, channels, channels}, 16})));
    }
    pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
    pointwise.finalize();
    operations.push_back(keep(std::move(pointwise)).raw());
  }
  g.graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
              static_cast<std::int64_t>(operations.size()), operations.data());
  g.graph.finalize();
  return g;
}

}  // namespace binade::cuda
