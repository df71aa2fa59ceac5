#include "binade/nn/linear.h"

#include <cmath>

#include "binade/autograd/functions/matmul.h"
#include "binade/core/error.h"
#include "binade/core/precision.h"
#include "binade/nn/init.h"

namespace binade::nn {

void init_as_linear(Parameter& weight, Parameter& bias) {
  // PyTorch has the same bound, from kaiming_uniform with slope sqrt(5).
  const double bound = 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, init::fans(weight.shape()).in)));
  init::uniform(weight, -bound, bound);
  if (bias.defined()) init::uniform(bias, -bound, bound);
}

Linear::Linear(const LinearOptions& o) : options_(o) {
  check<ArgumentError>(o.in > 0 && o.out > 0, "Linear: wanted in > 0 and out > 0, got {} and {}", o.in, o.out);
  weight = Parameter(Tensor::empty({o.out, o.in}, DType::f32, Runtime::current_device()));
  if (o.bias) bias = Parameter(Tensor::empty({o.out}, DType::f32, Runtime::current_device()));
  init_as_linear(weight, bias);
}

void Linear::visit(Visitor& v) {
  WeightedModule::visit(v);
  v("fp8_amax", fp8_amax);
}

Variable Linear::with_weight(const Variable& x, const Variable& other) {
  return linear(x, other, bias, {.activation = options_.activation, .fp8 = fp8_scaling()});
}

std::optional<ops::Fp8Scaling> Linear::fp8_scaling() {
  if (!reads_fp8(current_policy(), step_context().module_path, ops::Linear::info.name)) return std::nullopt;
  if (!fp8_amax.committed().defined()) return ops::Fp8Scaling{};
  if (!training()) return ops::Fp8Scaling{.amaxes = fp8_amax.value()};
  // The history gets one new entry per step, so it does not change for further micro-batches, further calls of this
  // layer or recomputation in the same step.
  const bool begun = step_context().recomputing || (TransactionScope::active() && fp8_amax.pending());
  if (!begun) ops::begin_fp8_step(fp8_amax.writable());
  return ops::Fp8Scaling{.amaxes = fp8_amax.value(), .record = true};
}

void use_fp8(Module& root, bool on) {
  const auto visit = [on](Module& module) {
    auto* const linear = dynamic_cast<Linear*>(&module);
    if (linear == nullptr || linear->fp8_amax.committed().defined() == on) return;
    // A wrapper such as WeightNorm computes the weight, and the layer has none of its own.
    const Device device = linear->weight.defined() ? linear->weight.value().device() : Runtime::current_device();
    linear->fp8_amax = on ? Buffer(ops::fp8_amaxes(device)) : Buffer();
  };
  visit(root);
  for (const auto& [path, module] : named_modules(root)) visit(*module);
}

}  // namespace binade::nn
