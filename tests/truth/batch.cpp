#include "tests/truth/batch.h"

#include <algorithm>
#include <cstring>

namespace binade::truth {

namespace {

/// Extents before, along and after an axis.
struct Extents {
  std::int64_t outer = 1, along = 1, inner = 1;
  Extents(const Shape& shape, int axis) : along(shape.dim(axis)) {
    for (int i = 0; i < axis; ++i) outer *= shape.dim(i);
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape.dim(i);
  }
};

Field without_samples(const Field& field, std::int64_t samples, std::span<const std::int64_t> rows) {
  const Tensor source = field.value.contiguous_copy();
  const Layout& l = field.layout;
  const Extents e(source.shape(), l.axis);
  const std::int64_t kept = samples - static_cast<std::int64_t>(rows.size());
  Tensor to = Tensor::empty(source.shape().with_dim(l.axis, l.views * kept * l.parts), source.dtype());
  const std::size_t bytes = static_cast<std::size_t>(e.inner) * size_of(source.dtype());
  const char* from = static_cast<const char*>(source.raw());
  char* out = static_cast<char*>(to.mutable_raw());
  for (std::int64_t o = 0; o < e.outer; ++o)
    for (std::int64_t i = 0; i < e.along; ++i) {
      const std::int64_t sample = i / l.parts % samples;
      if (std::find(rows.begin(), rows.end(), sample) != rows.end()) continue;
      std::memcpy(out, from + static_cast<std::size_t>(o * e.along + i) * bytes, bytes);
      out += bytes;
    }
  return {to, l};
}

}  // namespace

Batch Batch::without(std::span<const std::int64_t> rows) const {
  Batch left;
  for (const auto& [name, field] : fields) left.fields[name] = without_samples(field, samples(), rows);
  left.origin = origin.without(rows);
  return left;
}

Batch Batch::clone() const {
  Batch copy = *this;
  for (auto& [name, field] : copy.fields) field.value = field.value.clone();
  return copy;
}

Batch Batch::in_double() const {
  Batch copy = *this;
  for (auto& [name, field] : copy.fields)
    if (field.value.dtype() == DType::f32) field.value = field.value.to(DType::f64);
  return copy;
}

std::vector<std::int64_t> elements_of(const Field& field, std::int64_t samples, std::int64_t row) {
  const Extents e(field.value.shape(), field.layout.axis);
  std::vector<std::int64_t> positions;
  for (std::int64_t o = 0; o < e.outer; ++o)
    for (std::int64_t i = 0; i < e.along; ++i)
      if (i / field.layout.parts % samples == row)
        for (std::int64_t k = 0; k < e.inner; ++k) positions.push_back((o * e.along + i) * e.inner + k);
  return positions;
}

void set_element(Tensor& tensor, std::int64_t position, double value) {
  switch (tensor.dtype()) {
    case DType::f32: tensor.mutable_data<float>()[position] = static_cast<float>(value); break;
    case DType::f64: tensor.mutable_data<double>()[position] = value; break;
    case DType::i32: tensor.mutable_data<std::int32_t>()[position] = static_cast<std::int32_t>(value); break;
    case DType::i64: tensor.mutable_data<std::int64_t>()[position] = static_cast<std::int64_t>(value); break;
    default: throw DTypeError("truth: no way to write an element of this dtype");
  }
}

void set_sample(Batch& batch, const std::string& field, std::int64_t row, double value) {
  Field& f = batch.fields.at(field);
  for (const std::int64_t at : elements_of(f, batch.samples(), row)) set_element(f.value, at, value);
}

void scale_sample(Batch& batch, const std::string& field, std::int64_t row, double factor) {
  Field& f = batch.fields.at(field);
  for (const std::int64_t at : elements_of(f, batch.samples(), row)) set_element(f.value, at, factor * f.value.at(at));
}

BatchBuilder::BatchBuilder(std::uint64_t seed, const io::BatchOrigin& origin) : seed_(seed) { batch_.origin = origin; }

BatchBuilder& BatchBuilder::add(const std::string& name, const Shape& shape, const Layout& layout, const Value& value,
                                DType dtype) {
  Field& field = batch_.fields[name] = {Tensor::empty(shape, dtype), layout};
  for (std::int64_t row = 0; row < samples(); ++row) {
    const Sample sample(seed_, batch_.origin.samples[static_cast<std::size_t>(row)]);
    std::int64_t k = 0;
    for (const std::int64_t at : elements_of(field, samples(), row)) set_element(field.value, at, value(sample, k++));
  }
  return *this;
}

BatchBuilder& BatchBuilder::gate(const std::string& name, const Shape& shape, const Layout& layout) {
  return add(name, shape, layout, [](const Sample& s, std::int64_t) { return 0.5 + 1.5 * s.uniform(99, 0); });
}

}  // namespace binade::truth
