#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "binade/core/dtype.h"
#include "binade/core/random.h"

namespace binade::faults {

enum class ModelKind : std::uint8_t { kMlp, kGpt, kUNet };
std::string_view name_of(ModelKind kind);

inline constexpr std::int64_t kSteps = 24;  ///< committed updates of every run
inline constexpr int kSites = 3;            ///< places for user code in each model

/// A layer with a matrix product or convolution: its module path and op.
struct Product {
  const char* path{};
  const char* op{};
};
std::span<const Product> products_of(ModelKind kind);
/// Rows of a micro-batch.
std::int64_t rows_of(ModelKind kind);
/// A learning rate for which leaving out one batch changes the final loss by less than 1 %.
double peak_rate_of(ModelKind kind);

/// Where and when a fault is planted; drawn at random from a seed.
struct Spot {
  ModelKind model = ModelKind::kMlp;
  std::string precision = "fp32";  ///< fp32, bf16, fp16
  std::uint64_t seed = 1;          ///< of weights and data
  std::int64_t step = 1;           ///< the step in which the fault strikes
  std::int64_t row = 0;            ///< of the marked sample, in that step's batch (all micro-batches)
  std::int64_t micro_batches = 1;
  int site = 0;
  RandomStream choices{};  ///< for a family's other random choices

  std::string site_path() const { return "extra." + std::to_string(site); }
  std::int64_t rows() const { return rows_of(model); }
  /// The marked sample's id in the data set.
  std::int64_t sample_id() const { return (step - 1) * micro_batches * rows() + row; }
  std::int64_t pick(std::uint64_t which, std::int64_t n) const {
    return static_cast<std::int64_t>(choices.below(which, static_cast<std::uint64_t>(n)));
  }
  const Product& product() const {
    const auto all = products_of(model);
    return all[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(all.size())))];
  }
  /// The 16-bit dtype of the precision; f16 under fp32, for user code that computes in 16 bits itself.
  DType half() const { return precision == "bf16" ? DType::bf16 : DType::f16; }
  std::string to_string() const;
};

}  // namespace binade::faults
