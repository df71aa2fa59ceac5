#include "binade/io/onnx/nodes/node.h"

namespace binade::onnx {
namespace {

Outputs batch_normed(const Node& n) {
  const ChannelNormOptions options{.eps = n.number("epsilon", 1e-5)};
  const Variable x = channels_last(n[0]);
  if (n.integer("training_mode", 0) == 0) return {channels_first(batch_norm_with(x, n[3], n[4], n[1], n[2], options))};
  const auto [y, mean, var] = batch_norm(x, n[1], n[2], options);
  const double momentum = n.number("momentum", 0.9);
  return {channels_first(y), momentum * n[3] + (1 - momentum) * mean, momentum * n[4] + (1 - momentum) * var};
}

Variable group_normed(const Node& n, std::int64_t groups) {
  return channels_first(group_norm(channels_last(n[0]), groups, n[1], n[2], {.eps = n.number("epsilon", 1e-5)}));
}

/// The first normalized axis. The norm is over this axis and all after it.
int first_axis(const Node& n) { return from_start(n.integer("axis", -1), rank_of(n[0])); }
Variable as_row(const Variable& x) { return x.defined() ? reshape(x, {-1}) : x; }

Outputs layer_normed(const Node& n) {
  const double eps = n.number("epsilon", 1e-5);
  const int first = first_axis(n);
  const Variable y = layer_norm(flatten(n[0], first), as_row(n[1]), as_row(n[2]), eps);
  std::vector<int> axes;
  for (int i = first; i < rank_of(n[0]); ++i) axes.push_back(i);
  return {reshape(y, dims_of(n[0])), mean(n[0], axes, true), rsqrt(var(n[0], axes, 0, true) + eps)};
}

Variable rms_normed(const Node& n) {
  return reshape(rms_norm(flatten(n[0], first_axis(n)), as_row(n[1]), n.number("epsilon", 1e-5)), dims_of(n[0]));
}

/// x divided by its norm along `axis`; 0 where the norm is 0.
Variable normalized(const Node& n) {
  const Variable length = norm(n[0], static_cast<double>(n.integer("p", 2)), static_cast<int>(n.integer("axis", -1)),
                               true);
  return n[0] / where(length == 0, ones_like(length.value()), length);
}

Variable standardized(const Node& n) {
  const std::vector<int> axes = as_axes(n.integers("axes", {0, 2, 3}));
  return (n[0] - mean(n[0], axes, true)) / stddev(n[0], axes, 0, true);
}

ops::Reduction reduction(const Node& n) {
  const std::string word = n.text("reduction", "mean");
  return word == "none" ? ops::Reduction::kNone : word == "sum" ? ops::Reduction::kSum : ops::Reduction::kMean;
}

}  // namespace

Table norm_nodes() {
  return {
      {"BatchNormalization", batch_normed},
      {"GroupNormalization", one([](const Node& n) { return group_normed(n, n.integer("num_groups", 1)); })},
      {"InstanceNormalization", one([](const Node& n) { return group_normed(n, n[0].dim(1)); })},
      {"LayerNormalization", layer_normed},
      {"LpNormalization", one(normalized)},
      {"MeanVarianceNormalization", one(standardized)},
      {"NegativeLogLikelihoodLoss", one([](const Node& n) {
         return nll(channels_last(n[0]), n[1],
                    {.ignore_index = n.integer("ignore_index", -100), .reduction = reduction(n)}, n[2]);
       })},
      {"RMSNormalization", one(rms_normed)},
      {"SoftmaxCrossEntropyLoss",
       [](const Node& n) -> Outputs {
         return {cross_entropy(channels_last(n[0]), n[1],
                               {.ignore_index = n.integer("ignore_index", -100), .reduction = reduction(n)}, n[2]),
                 log_softmax(n[0], 1)};
       }},
  };
}

}  // namespace binade::onnx
