#include "binade/optim/clip.h"

#include <algorithm>
#include <cmath>

#include "binade/core/error.h"
#include "binade/core/kernels/table.h"

namespace binade::optim {
namespace {

void limit_all(FlatParameters& parameters, float factor, float limit) {
  parameters.gradients();
  std::vector<float*> values(parameters.size(), nullptr);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters.has_gradient(i)) values[i] = parameters.slices()[i].variable.state()->grad.mutable_data<float>();
  kernels(parameters.device()).limit({parameters.blocks(), values, factor, limit});
}

}  // namespace

double clip_factor(double norm, double max_norm) {
  check<ArgumentError>(max_norm > 0, "clip by norm: wanted a bound above 0, got {}", max_norm);
  check<NumericError>(std::isfinite(norm), "clip by norm: the gradients' norm is {}; nothing was changed", norm);
  return std::min(1.0, max_norm / (norm + 1e-6));
}

double clip_by_norm(FlatParameters& parameters, double max_norm) {
  const GradientScan scan = scan_gradients(parameters);
  for (std::size_t i = 0; i < scan.words.size(); ++i)
    check<NumericError>(scan.words[i] < 0x7f800000u, "clip by norm: the gradient of {} holds {}; nothing was changed",
                        parameters.slices()[i].name, magnitude_of(scan.words[i]));
  const auto factor = static_cast<float>(clip_factor(scan.norm(), max_norm));
  if (factor < 1) limit_all(parameters, factor, 0);
  return scan.norm();
}

void clip_by_value(FlatParameters& parameters, double limit) {
  check<ArgumentError>(limit > 0, "clip by value: wanted a bound above 0, got {}", limit);
  limit_all(parameters, 1, static_cast<float>(limit));
}

void clip_adaptive(FlatParameters& parameters, const AdaptiveClipOptions& options, double inverse_scale) {
  check<ArgumentError>(options.limit > 0 && options.floor >= 0,
                       "adaptive clip: wanted limit > 0 and floor >= 0, got {} and {}", options.limit, options.floor);
  parameters.gradients();
  for (std::size_t s = 0; s < parameters.size(); ++s) {
    if (!parameters.has_gradient(s)) continue;
    Variable::State& state = *parameters.slices()[s].variable.state();
    const std::int64_t units = state.value.rank() > 1 ? state.value.dim(0) : 1;
    if (state.value.numel() == 0) continue;
    const std::int64_t size = state.value.numel() / units;
    const Tensor values = state.value.to(DType::f32);  // a copy only if the weights are stored in 16 bits
    kernels(parameters.device())
        .limit_units({.units = units,
                      .size = size,
                      .weights = values.data<float>(),
                      .gradients = state.grad.mutable_data<float>(),
                      .share = options.limit,
                      .floor = options.floor,
                      .inverse_scale = inverse_scale});
  }
}

}  // namespace binade::optim
