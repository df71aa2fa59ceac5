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
inline constexpr int kSites = 3;            ///< places in each model where a user's own code may run

/// A layer that multiplies: its module and op, in the order of forward.
struct Product {
  const char* path{};
  const char* op{};
};
std::span<const Product> products_of(ModelKind kind);
/// Rows of a micro-batch.
std::int64_t rows_of(ModelKind kind);
/// A learning rate at which a batch more or less changes the final loss by less than 1 %.
double peak_rate_of(ModelKind kind);

/// Where and when a fault is planted: drawn at random, the same from the same seed.
struct Spot {
  ModelKind model = ModelKind::kMlp;
  std::string precision = "fp32";  ///< fp32, bf16, fp16
  std::uint64_t seed = 1;          ///< of weights and data
  std::int64_t step = 1;           ///< the step that is to fail
  std::int64_t row = 0;            ///< of the marked sample, in that step's whole batch
  std::int64_t micro_batches = 1;
  int site = 0;
  RandomStream choices{};  ///< for what else a family draws

  std::string site_path() const { return "extra." + std::to_string(site); }
  std::int64_t rows() const { return rows_of(model); }
  /// The data set's number of the marked sample.
  std::int64_t sample_id() const { return (step - 1) * micro_batches * rows() + row; }
  std::int64_t pick(std::uint64_t which, std::int64_t n) const {
    return static_cast<std::int64_t>(choices.below(which, static_cast<std::uint64_t>(n)));
  }
  const Product& product() const {
    const auto all = products_of(model);
    return all[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(all.size())))];
  }
  /// The 16-bit dtype of the precision; f16 under fp32, for user code that computes in halves by itself.
  DType half() const { return precision == "bf16" ? DType::bf16 : DType::f16; }
  std::string to_string() const;
};

}  // namespace binade::faults
