#include "binade/cuda/device/conv_graph.h"
#include "binade/cuda/device/cudnn_plans.cuh"

/// Convolutions by cuDNN.
namespace binade::cuda {
namespace {

PlanCache<ConvKey>& plans() {
  // Never destroyed: the CUDA driver may shut down before static objects are destroyed.
  static auto* only = new PlanCache<ConvKey>({.what = "a convolution",
                                              .family = kConvFamily,
                                              .forms = kConvForms,
                                              .no_library = &no_library_for,
                                              .propose = &propose_conv,
                                              .restore = &restore_conv_plan});
  return *only;
}

bool run(const ConvKey& key, const void* x, const void* w, const void* y, const void* bias) {
  return plans().with_plan(key, [&](const EnginePlan& plan) {
    std::vector<PlanTensor> tensors{{kTensorX, x}, {kTensorW, w}, {kTensorY, y}};
    if (bias != nullptr) tensors.push_back({kTensorBias, bias});
    execute(plan, tensors, "a convolution");
  });
}

bool has_conv_plan(const ConvKey& key) { return plans().has_plan(key); }

}  // namespace

bool library_conv(const ConvArgs& a) {
  const void* const x = a.transposed ? a.result : a.source;
  const void* const y = a.transposed ? a.source : a.result;
  return run(conv_key(a), x, a.filter, y, a.bias);
}

bool library_conv_weight(const ConvWeightArgs& a) { return run(conv_key(a), a.x, a.gw, a.gy, nullptr); }

bool library_has_conv(const ConvArgs& a) { return has_conv_plan(conv_key(a)); }
bool library_has_conv(const ConvWeightArgs& a) { return has_conv_plan(conv_key(a)); }

void forget_conv_plans() { plans().forget(); }
std::string conv_plans() { return plans().text(); }
int use_conv_plans(const std::string& text) { return plans().use(text); }

}  // namespace binade::cuda
