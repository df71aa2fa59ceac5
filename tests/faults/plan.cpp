#include "tests/faults/plan.h"

namespace binade::faults {

Variable marks(const Now& now, const Variable& x, double here, double elsewhere) {
  std::vector<float> values(static_cast<std::size_t>(now.rows), static_cast<float>(elsewhere));
  if (now.here()) values[static_cast<std::size_t>(now.row)] = static_cast<float>(here);
  std::vector<std::int64_t> dims(static_cast<std::size_t>(x.value().rank()), 1);
  dims[0] = now.rows;
  return Tensor::from(values, Shape(dims));
}

Variable per_sample(const Now& now, double here, double elsewhere) {
  std::vector<float> values(static_cast<std::size_t>(now.rows), static_cast<float>(elsewhere));
  if (now.here()) values[static_cast<std::size_t>(now.row)] = static_cast<float>(here);
  return Tensor::from(values, {now.rows});
}

std::span<float> marked_row(Tensor& tensor, const Now& now) {
  const std::int64_t width = tensor.numel() / tensor.dim(0);
  return {tensor.mutable_data<float>() + now.row * width, static_cast<std::size_t>(width)};
}

std::vector<Family> all_families() {
  std::vector<Family> all;
  for (const auto theme : {poles, norms, attention_faults, losses, overflows, gradients, data_faults, state_faults,
                           hardware_faults, controls})
    for (Family& family : theme()) all.push_back(std::move(family));
  return all;
}

}  // namespace binade::faults
