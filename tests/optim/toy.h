#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "binade/core/random.h"
#include "binade/core/runtime.h"
#include "binade/optim/flat_parameters.h"

/// A few parameters with seeded values, for tests that set the gradients themselves.
namespace binade::optim::toy {

inline std::vector<float> numbers(std::int64_t count, std::uint32_t index, float spread = 1) {
  const RandomStream stream{7, RngPurpose::kData, 0, 0, index};
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = spread * (2 * stream.uniform(i) - 1);
  return values;
}

inline Variable variable(const Shape& shape, std::uint32_t index, float spread = 1) {
  return Variable(Tensor::from(numbers(shape.numel(), index, spread), shape), true);
}

/// Returns parameters of shapes (5, 3), (7), (130, 65), (1) and (4099): sizes near the width of vectors, the alignment
/// and the size of blocks.
inline std::vector<NamedParameter> parameters() {
  std::vector<NamedParameter> list;
  const Shape shapes[] = {Shape{5, 3}, Shape{7}, Shape{130, 65}, Shape{1}, Shape{4099, 1}};
  std::uint32_t index = 0;
  for (const Shape& shape : shapes) {
    const Variable v = variable(shape, index);
    list.push_back({"p" + std::to_string(index++) + ".weight", v, decays_by_rank(v)});
  }
  return list;
}

inline void set_gradient(const Variable& variable, const std::vector<float>& values) {
  Variable::State& state = *variable.state();
  if (!state.grad.defined()) state.grad = Tensor::empty(variable.shape());
  state.grad.copy_from(Tensor::from(values, variable.shape()));
  state.grad_defined = true;
}

/// Returns the gradients of step t, with widely different magnitudes.
inline std::vector<float> gradient(std::int64_t count, std::uint32_t parameter, int t) {
  std::vector<float> g = numbers(count, 100 + 16 * static_cast<std::uint32_t>(t) + parameter);
  for (std::size_t i = 0; i < g.size(); ++i) g[i] *= std::ldexp(1.0f, static_cast<int>(i % 9) - 6);
  return g;
}

inline std::vector<double> widened(const std::vector<float>& x) { return {x.begin(), x.end()}; }

}  // namespace binade::optim::toy
