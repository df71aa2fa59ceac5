#include "binade/amp/watch/attention_entropy.h"

#include <cmath>

#include "binade/autograd/node.h"
#include "binade/core/kernels/table.h"
#include "binade/core/kernels/views.h"
#include "binade/core/ops/attention.h"
#include "binade/core/ops/softmax.h"

namespace binade::amp {
namespace {

/// The maximum number of ops (scales, masks, reshapes, casts) between the product of query and key and its softmax.
constexpr std::size_t kMaxOpsBetween = 16;

/// True if all operands were computed by other ops, so that none is a weight.
bool multiplies_activations(const Node& product) {
  return std::ranges::all_of(product.edges(), [](const Edge& edge) { return edge.node != nullptr; });
}

/// Returns evenly spaced rows of the logits, along the last axis.
std::vector<std::vector<double>> sample_rows(const Tensor& logits) {
  const Tensor flat = logits.on_host();
  const std::int64_t width = flat.shape().cols();
  const RowSample rows(flat.shape().rows());
  std::vector<std::vector<double>> sample;
  dispatch_float(flat.dtype(), "attention entropy", [&]<class T>(TypeTag<T>) {
    for (std::int64_t i = 0; i < rows.size; ++i) {
      const T* row = flat.data<T>() + rows.of(i) * width;
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
    if (!VisibleKeys::masked(l)) visible.push_back(l);
  if (visible.size() < VisibleKeys::kLeast) return std::nullopt;
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

std::optional<double> mean_entropy(std::span<const double> entropies) {
  double sum = 0;
  int count = 0;
  for (const double entropy : entropies)
    if (!std::isnan(entropy)) {
      sum += entropy;
      ++count;
    }
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

const Node* attention_scores(const OpCall& call, std::span<const Variable> inputs) {
  if (call.info.numerics.non_finite != NonFinite::kMasks || call.info.family == OpFamily::kAttention) return nullptr;
  std::vector<const Node*> reachable;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (call.info.takes_mask(i) && inputs[i].defined() && inputs[i].state()->node)
      reachable.push_back(inputs[i].state()->node.get());
  for (std::size_t at = 0; at < reachable.size() && at < kMaxOpsBetween; ++at) {
    const Node& node = *reachable[at];
    if (node.info().family == OpFamily::kProduct && multiplies_activations(node)) return &node;
    if (!node.info().carries_masks && !node.info().same_values) continue;
    for (const Edge& edge : node.edges())
      if (edge.node != nullptr) reachable.push_back(edge.node.get());
  }
  return nullptr;
}

std::optional<double> attention_entropy(const OpCall& call, std::span<const Tensor> read, bool is_attention_scores) {
  std::vector<std::vector<double>> rows;
  if (const auto* params = call.params_of<ops::Attention>())
    rows = ops::attention_logits(read, *params, RowSample::kMost);
  else if (is_attention_scores && call.params_of<ops::Softmax>() != nullptr)
    rows = sample_rows(read[0]);
  std::vector<double> entropies;
  for (const std::vector<double>& row : rows) entropies.push_back(relative_entropy(row).value_or(std::nan("")));
  return mean_entropy(entropies);
}

std::optional<EntropiesOnDevice> probe_entropy(const OpCall& call, std::span<const Tensor> read, bool of_scores,
                                               ProbeBuffer& buffer) {
  const auto* params = call.params_of<ops::Attention>();
  if (params == nullptr && !(of_scores && call.params_of<ops::Softmax>() != nullptr)) return std::nullopt;
  const Device device = read[0].device();
  const auto allocate = [&](std::int64_t rows) { return buffer.allocate(RowSample(rows).size, device); };
  if (params == nullptr) {
    const ProbedValues logits = probed_values(read[0]);
    const ProbeBuffer::Range range = allocate(logits.rows);
    kernels(device).softmax_probe({logits, range.data});
    return EntropiesOnDevice{range.first, RowSample(logits.rows).size};
  }
  const ops::AttentionCall attention = ops::attention_call(read, *params);
  AttentionProbe probe{.args = attention.args};
  const ProbeBuffer::Range range = allocate(probe.rows());
  probe.entropies = range.data;
  kernels(device).attention_probe(probe);
  return EntropiesOnDevice{range.first, RowSample(probe.rows()).size};
}

}  // namespace binade::amp
