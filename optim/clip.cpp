#include "optim/clip.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"

namespace binade::optim {
namespace {

/// Calls f(gradients, count, slice) for each block of each parameter that has a gradient.
template <class F>
void for_each_block(FlatParameters& parameters, F&& f) {
  parameters.gradients();
  const std::vector<FlatBlock>& blocks = parameters.blocks();
  parallel_blocks(static_cast<std::int64_t>(blocks.size()), [&](std::int64_t b) {
    const FlatBlock& block = blocks[static_cast<std::size_t>(b)];
    const auto slice = static_cast<std::size_t>(block.slice);
    if (!parameters.has_gradient(slice)) return;
    float* g = parameters.slices()[slice].variable.state()->grad.mutable_data<float>() + block.begin;
    f(g, block.count);
  });
}

double norm_of(const float* x, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return std::sqrt(sum);
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
  if (factor < 1)
    for_each_block(parameters, [factor](float* g, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) g[i] *= factor;
    });
  return scan.norm();
}

void clip_by_value(FlatParameters& parameters, double limit) {
  check<ArgumentError>(limit > 0, "clip by value: wanted a bound above 0, got {}", limit);
  const auto bound = static_cast<float>(limit);
  for_each_block(parameters, [bound](float* g, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) g[i] = g[i] > bound ? bound : (g[i] < -bound ? -bound : g[i]);
  });
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
    const Tensor values = state.value.to(DType::f32);  // itself, but for weights without masters
    const float* w = values.data<float>();
    float* g = state.grad.mutable_data<float>();
    const std::int64_t grain = std::max<std::int64_t>(1, kFlatBlock / size);
    parallel_for(units, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t u = begin; u < end; ++u) {
        const double largest = options.limit * std::max(norm_of(w + u * size, size), options.floor);
        const double norm = norm_of(g + u * size, size) * inverse_scale;
        if (!(norm > largest)) continue;
        const auto factor = static_cast<float>(largest / norm);
        for (std::int64_t i = u * size; i < (u + 1) * size; ++i) g[i] *= factor;
      }
    });
  }
}

}  // namespace binade::optim
