#include "tests/conformance/case.h"

#include "binade/autograd/gradcheck.h"
#include "binade/core/random.h"

namespace binade::conformance {

Tensor random(const Shape& shape, std::uint64_t tag, double low, double high) {
  const RandomStream stream{.seed = 2026, .purpose = RngPurpose::kData, .step = tag};
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = low + (high - low) * stream.uniform(i);
  return Tensor::from(values, shape);
}

Tensor random_slice(const Shape& shape, std::uint64_t tag, double low, double high) {
  const std::int64_t cols = shape.cols();
  return random(shape.with_dim(-1, cols + 5), tag, low, high).channel_slice(5, cols);
}

Tensor random_labels(const Shape& shape, std::uint64_t tag, std::int64_t n) {
  const RandomStream stream{.seed = 2026, .purpose = RngPurpose::kData, .step = tag};
  std::vector<std::int64_t> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::int64_t>(stream.below(i, static_cast<std::uint64_t>(n)));
  return Tensor::from(values, shape);
}

const std::vector<ShapeClass>& shape_classes() {
  static const std::vector<ShapeClass> classes = {
      {"scalar", Shape{}},
      {"one_element", {1}},
      {"ones", {1, 1, 1}},
      {"empty", {0}},
      {"empty_middle", {3, 0, 5}},
      {"vector", {17}},
      {"column", {9, 1}},
      {"matrix", {3, 5}},
      {"odd_tiles", {33, 67}},
      {"image", {2, 5, 7, 3}},
      {"rank_8", {1, 2, 1, 3, 2, 1, 2, 3}},
      {"channel_slice", {4, 3, 6}, true},
      {"one_channel_slice", {5, 1}, true},
      {"wide_slice", {3, 519}, true},
      {"large", {37, 1031}},
  };
  return classes;
}

Array array_of(const Tensor& t) { return {t.shape(), t.to_vector<double>()}; }

Tensor in_dtype(const Tensor& x, DType dtype) {
  if (!is_floating(x.dtype())) return x;
  if (x.contiguous()) return x.clone().to(dtype);
  Tensor wide = Tensor::zeros(x.shape().with_dim(-1, x.pitch()), dtype);
  Tensor slice = wide.channel_slice(x.pitch() - x.shape().cols(), x.shape().cols());
  slice.copy_from(x);
  return slice;
}

Variable variable_of(const Tensor& x, bool with_gradient) {
  return Variable(placed(x, tested_device()), with_gradient && is_floating(x.dtype()));
}

}  // namespace binade::conformance
