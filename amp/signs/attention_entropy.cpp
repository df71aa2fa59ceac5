#include "amp/signs/attention_entropy.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/ops/attention.h"
#include "core/ops/softmax.h"

namespace binade::amp {
namespace {

constexpr std::int64_t kRows = 16;
constexpr std::size_t kLeastKeys = 8;
constexpr double kMask = -9000;  // constants that stand for -inf begin at -10000

/// Rows of a softmax over the last axis, evenly spread.
std::vector<std::vector<double>> rows_of(const Tensor& logits) {
  const Tensor flat = logits.on_host();
  const std::int64_t rows = flat.shape().rows(), width = flat.shape().cols(), count = std::min(kRows, rows);
  std::vector<std::vector<double>> sample;
  dispatch_float(flat.dtype(), "attention entropy", [&]<class T>(TypeTag<T>) {
    for (std::int64_t i = 1; i <= count; ++i) {
      const T* row = flat.data<T>() + (rows * i / count - 1) * width;
      std::vector<double>& values = sample.emplace_back();
      for (std::int64_t s = 0; s < width; ++s) values.push_back(static_cast<double>(load(row[s])));
    }
  });
  return sample;
}

}  // namespace

std::optional<double> relative_entropy(std::span<const double> logits) {
  std::vector<double> visible;
  for (const double l : logits)
    if (!(l < kMask)) visible.push_back(l);
  if (visible.size() < kLeastKeys) return std::nullopt;
  const double top = *std::ranges::max_element(visible);
  double sum = 0, weighted = 0;
  for (const double l : visible) {
    const double e = std::exp(l - top);
    sum += e;
    weighted += e * (l - top);
  }
  const double entropy = std::log(sum) - weighted / sum;
  if (!std::isfinite(entropy)) return std::nullopt;
  return std::max(entropy, 0.0) / std::log(static_cast<double>(visible.size()));
}

std::optional<double> attention_entropy(const OpCall& call, std::span<const Tensor> read) {
  std::vector<std::vector<double>> rows;
  if (const auto* params = call.params_of<ops::Attention>())
    rows = ops::attention_logits(read, *params, kRows);
  else if (call.params_of<ops::Softmax>() != nullptr && call.module_path.find("attention") != call.module_path.npos)
    rows = rows_of(read[0]);
  double sum = 0;
  int count = 0;
  for (const std::vector<double>& row : rows)
    if (const std::optional<double> entropy = relative_entropy(row)) {
      sum += *entropy;
      ++count;
    }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

}  // namespace binade::amp
