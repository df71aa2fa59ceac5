#include "binade/cuda/device/conv_graph.h"

#include <algorithm>

namespace binade::cuda {
namespace {

/// Describes images whose pixels are `pitch` elements apart (in a channel slice, more than the slice has channels).
TensorFacts pixels(ConvTensor id, DType dtype, const Four& extents, std::int64_t pitch, int alignment) {
  return {id, type_of(dtype), extents, {extents[2] * extents[3] * pitch, 1, extents[3] * pitch, pitch}, alignment};
}

TensorFacts x_facts(const ConvKey& key, DType dtype) {
  const ConvShape& s = key.shape;
  return pixels(kTensorX, dtype, {s.images, s.channels, s.height, s.width}, key.x_pitch, key.x_alignment);
}
TensorFacts y_facts(const ConvKey& key, DType dtype) {
  const ConvShape& s = key.shape;
  return pixels(kTensorY, dtype, {s.images, s.filters, s.out_height, s.out_width}, key.y_pitch, key.y_alignment);
}
TensorFacts w_facts(const ConvKey& key, DType dtype) {
  const ConvShape& s = key.shape;
  const std::int64_t channels = s.channels /
                                s.groups;  // cuDNN infers the number of groups from these and the channels of x
  return pixels(kTensorW, dtype, {s.filters, channels, s.filter_height, s.filter_width}, channels, key.w_alignment);
}

/// Describes f32 sums in the shape of `result`, which never reach memory.
TensorFacts sums_like(const TensorFacts& result) {
  TensorFacts sums = pixels(kTensorSums, DType::f32, result.extents, result.extents[1], 16);
  sums.is_virtual = true;
  return sums;
}

Descriptor convolution(const ConvShape& s) {
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

/// cuDNN's names for the parts of an operation.
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

/// Returns the number of parts into which a sum over all pixels is cut. A result of few tiles leaves most of a device
/// idle, and if the inputs are 16-bit, cuDNN's heuristics cut sums only if the result is 16-bit too.
int slices_of(const ConvKey& key, const EngineTarget& target) {
  if (key.pass != ConvPass::kWeightGradient || key.in == key.out) return 1;
  constexpr std::int64_t kTile = 128, kMostSlices = 128, kPixels = 1024;  // kPixels: fewest pixels of a part
  const ConvShape& s = key.shape;
  const auto tiles = [](std::int64_t n) { return (n + kTile - 1) / kTile; };
  const std::int64_t columns = s.filter_height * s.filter_width * (s.channels / s.groups);
  const std::int64_t result_tiles = s.groups * tiles(s.filters / s.groups) * tiles(columns);
  const std::int64_t to_fill_device = 2 * target.multiprocessors / std::max<std::int64_t>(result_tiles, 1);
  const std::int64_t worthwhile = s.images * s.out_height * s.out_width / kPixels;
  const std::int64_t bytes = s.filters * columns * static_cast<std::int64_t>(sizeof(float));
  const std::int64_t fitting = target.most_workspace / 2 / std::max<std::int64_t>(bytes, 1);
  return static_cast<int>(std::clamp<std::int64_t>(std::min({to_fill_device, worthwhile, fitting}), 1, kMostSlices));
}

/// Returns the requirements on the engine of a key. For 16-bit inputs, engines with a pointwise operation that use no
/// Tensor Cores come last.
EngineRequirements requirements_of(const ConvKey& key, int form, const EngineTarget& target) {
  const bool halves = key.in != DType::f32;
  return {.tensor_cores = halves && form == kThroughFloat ? TensorCores::kOnly
                          : halves || key.tf32            ? TensorCores::kAllowed
                                                          : TensorCores::kNone,
          .slices = slices_of(key, target)};
}

std::vector<ConvForm> forms_of(const ConvKey& key) {
  if (key.bias) return {ConvForm::kThroughFloat};
  if (key.in == key.out) return {ConvForm::kDirect};
  return {ConvForm::kDirect, ConvForm::kThroughFloat};
}

}  // namespace

OperationGraph conv_graph(const ConvKey& key, ConvForm form, cudnnHandle_t handle) {
  const TensorFacts x = x_facts(key, key.pass == ConvPass::kDataGradient ? key.out : key.in);
  const TensorFacts w = w_facts(key, key.pass == ConvPass::kWeightGradient ? key.out : key.in);
  const TensorFacts y = y_facts(key, key.pass == ConvPass::kForward ? key.out : key.in);
  const TensorFacts& result = key.pass == ConvPass::kForward ? y : key.pass == ConvPass::kDataGradient ? x : w;

  OperationGraph g;
  const cudnnBackendDescriptor_t tx = g.keep(tensor(x)), tw = g.keep(tensor(w)), ty = g.keep(tensor(y));
  const cudnnBackendDescriptor_t to = result.id == kTensorX ? tx : result.id == kTensorW ? tw : ty;
  const cudnnBackendDescriptor_t sums = form == ConvForm::kDirect ? to : g.keep(tensor(sums_like(result)));

  const Operation names = operation_of(key.pass);
  Descriptor operation(names.type);
  // The factors have the type of the sums. An engine that reads f32 factors would read the first half of a double,
  // which is 0 for 1.0.
  operation.set_one(names.alpha, CUDNN_TYPE_FLOAT, 1.0f);
  operation.set_one(names.beta, CUDNN_TYPE_FLOAT, 0.0f);
  operation.set(names.convolution, g.keep(convolution(key.shape)));
  operation.set(names.x, tx == to ? sums : tx);
  operation.set(names.w, tw == to ? sums : tw);
  operation.set(names.y, ty == to ? sums : ty);
  operation.finalize();
  std::vector<cudnnBackendDescriptor_t> operations{g.keep(std::move(operation))};

  if (form == ConvForm::kThroughFloat) {
    Descriptor mode(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    mode.set_one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE,
                 key.bias ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_IDENTITY);
    mode.set_one(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    mode.finalize();
    Descriptor pointwise(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, g.keep(std::move(mode)));
    pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sums);
    if (key.bias) {
      const std::int64_t channels = result.extents[1];
      pointwise.set(
          CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
          g.keep(tensor({kTensorBias, CUDNN_DATA_FLOAT, {1, channels, 1, 1}, {channels, 1, channels, channels}})));
    }
    pointwise.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
    pointwise.finalize();
    operations.push_back(g.keep(std::move(pointwise)));
  }
  g.finalize(operations, handle);
  return g;
}

std::vector<EngineChoice> propose_conv(const ConvKey& key, const EngineTarget& target) {
  std::vector<EngineChoice> all;
  for (const ConvForm form : forms_of(key)) {
    const std::vector<EngineChoice> more = proposed_engines(conv_graph(key, form, target.handle), form,
                                                            requirements_of(key, form, target), target);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::optional<EnginePlan> restore_conv_plan(const ConvKey& key, const EngineChoice& choice,
                                            const EngineTarget& target) {
  const std::vector<ConvForm> forms = forms_of(key);
  const auto form = static_cast<ConvForm>(choice.form);
  if (std::find(forms.begin(), forms.end(), form) == forms.end()) return {};
  return restore_engine(conv_graph(key, form, target.handle), choice, requirements_of(key, form, target), target);
}

}  // namespace binade::cuda
