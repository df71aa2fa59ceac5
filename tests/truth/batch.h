#pragma once

#include <binade.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace binade::truth {

/// Says which positions of a tensor belong to which sample. The extent of `axis` is views * samples * parts, and
/// position (v * samples + s) * parts + p belongs to sample s. Views are stacked copies of the batch (such as two
/// augmentations), parts are the tokens, points or heads of a sample.
struct Layout {
  int axis = 0;
  std::int64_t views = 1, parts = 1;
};

struct Field {
  Tensor value{};
  Layout layout{};
};

/// The batch of all models: tensors by name, each with its own layout.
struct Batch {
  std::map<std::string, Field> fields{};
  io::BatchOrigin origin{};

  const Tensor& operator[](const std::string& name) const { return fields.at(name).value; }
  bool has(const std::string& name) const { return fields.contains(name); }
  std::int64_t samples() const { return static_cast<std::int64_t>(origin.samples.size()); }
  Batch without(std::span<const std::int64_t> rows) const;
  /// A copy that shares no memory with this one.
  Batch clone() const;
  /// A copy whose floating fields are f64, so that every op that reads one computes in f64.
  Batch in_double() const;
};

/// Row-major positions of the elements of `field` that belong to sample `row` of `samples`, ascending.
std::vector<std::int64_t> elements_of(const Field& field, std::int64_t samples, std::int64_t row);
/// Writes one element, of any dtype.
void set_element(Tensor& tensor, std::int64_t position, double value);
/// Sets all elements of one sample.
void set_sample(Batch& batch, const std::string& field, std::int64_t row, double value);
/// Multiplies all elements of one sample.
void scale_sample(Batch& batch, const std::string& field, std::int64_t row, double factor);

/// One sample of a synthetic data set, which depends only on the data set's seed and the sample's id.
class Sample {
 public:
  Sample(std::uint64_t seed, std::int64_t id) : seed_(seed), id_(id) {}
  /// The hidden variable that a sample's inputs and targets depend on, uniform in [-1, 1).
  double latent() const { return 2 * stream(0).uniform(0) - 1; }
  std::int64_t label(std::int64_t classes) const {
    return static_cast<std::int64_t>((latent() + 1) / 2 * static_cast<double>(classes)) % classes;
  }
  double normal(std::uint32_t field, std::int64_t k) const {
    return stream(field).normal(static_cast<std::uint64_t>(k));
  }
  double uniform(std::uint32_t field, std::int64_t k) const {
    return stream(field).uniform(static_cast<std::uint64_t>(k));
  }

 private:
  RandomStream stream(std::uint32_t field) const {
    return {seed_, RngPurpose::kData, static_cast<std::uint64_t>(id_), 0, field};
  }
  std::uint64_t seed_;
  std::int64_t id_;
};

/// Fills the fields of a batch sample by sample.
class BatchBuilder {
 public:
  /// `k` counts the elements of one sample in row-major order.
  using Value = std::function<double(const Sample& sample, std::int64_t k)>;
  BatchBuilder(std::uint64_t seed, const io::BatchOrigin& origin);
  std::int64_t samples() const { return batch_.samples(); }
  BatchBuilder& add(const std::string& name, const Shape& shape, const Layout& layout, const Value& value,
                    DType dtype = DType::f32);
  /// Adds a field with one positive number per sample, in a shape that broadcasts to an activation. A sample has the
  /// same number in every gate field.
  BatchBuilder& gate(const std::string& name, const Shape& shape, const Layout& layout = {});
  Batch take() { return std::move(batch_); }

 private:
  std::uint64_t seed_;
  Batch batch_;
};

}  // namespace binade::truth
