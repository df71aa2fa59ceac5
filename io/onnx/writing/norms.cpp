#include "binade/core/ops/batch_norm.h"
#include "binade/core/ops/group_norm.h"
#include "binade/core/ops/layer_norm.h"
#include "binade/core/ops/rms_norm.h"
#include "binade/io/onnx/writing/recorder.h"

namespace binade::onnx {
namespace {

std::string filled(Call& c, std::int64_t count, double value) {
  return c.tensor(Tensor::full({count}, value, c.computing()));
}
/// Operand i, the weight or bias of a norm or, if it is missing, a constant in its place.
std::string or_filled(Call& c, int i, std::int64_t count, double value) {
  return c.has(i) ? c.number(i) : filled(c, count, value);
}

/// The input of a norm over channels, with the channels on axis 1, and how its axes were reordered.
struct Channels {
  std::string x{};
  bool first = false;  ///< an image as (N, C, H, W)
  bool moved = false;  ///< another rank than 2 and 4: transposed
};
Integers to_axis_1(int rank) {
  Integers order{0, rank - 1};
  for (int i = 1; i < rank - 1; ++i) order.push_back(i);
  return order;
}
Channels channels_of(Call& c, int i) {
  const int rank = c.in(i).rank();
  if (rank == 4) return {c.channels_first(i), true, false};
  if (rank == 2) return {c.number(i), false, false};
  return {c.transposed(i, to_axis_1(rank)), false, true};
}
/// Ends a norm over channels: restores the order of axes, and adds the residual and the ReLU.
void finish(Call& c, const Channels& channels, std::string y, int residual, bool relu) {
  if (channels.moved) {
    const int rank = c.out().rank();
    Integers back{0};
    for (int i = 2; i < rank; ++i) back.push_back(i);
    back.push_back(1);
    y = c.node("Transpose", {y}, {{"perm", back}});
  }
  if (c.has(residual)) y = c.node("Add", {y, channels.first ? c.channels_first(residual) : c.number(residual)});
  if (relu) y = c.node("Relu", {y});
  c.result(0, y, channels.first);
}

void batch_norm(Call& c) {
  const auto& p = c.params<ops::BatchNorm>();
  no_counterpart_if(p.training, "the layer is in training mode; call eval()");
  const std::int64_t count = c.in(0).shape().cols();
  const Channels x = channels_of(c, 0);
  const std::string y = c.node("BatchNormalization",
                               {x.x, or_filled(c, 1, count, 1), or_filled(c, 2, count, 0), c.number(4), c.number(5)},
                               {{"epsilon", p.eps}});
  finish(c, x, y, 3, p.relu);
}

/// Writes an InstanceNormalization in which each group is one channel.
void group_norm(Call& c) {
  const auto& p = c.params<ops::GroupNorm>();
  const std::int64_t count = c.in(0).shape().cols();
  const int rank = c.in(0).rank();
  const Channels x = channels_of(c, 0);
  const std::string groups = c.node("Reshape", {x.x, c.list({0, p.groups, -1})});
  std::string y = c.node("InstanceNormalization", {groups, filled(c, p.groups, 1), filled(c, p.groups, 0)},
                         {{"epsilon", p.eps}});
  Integers dims{0, count};
  for (int i = 1; i < rank - 1; ++i) dims.push_back(c.in(0).dim(i));
  y = c.node("Reshape", {y, c.list(dims)});
  Integers channel{-1};
  for (int i = 2; i < rank; ++i) channel.push_back(1);
  if (c.has(1)) y = c.node("Mul", {y, c.node("Reshape", {c.number(1), c.list(channel)})});
  if (c.has(2)) y = c.node("Add", {y, c.node("Reshape", {c.number(2), c.list(channel)})});
  finish(c, x, y, 3, p.relu);
}

/// Normalizes the rows of x. Operand `weight` is the weight, operand `weight + 1` the bias of a layer norm.
std::string layer_norm_of(Call& c, const std::string& x, int weight, double eps) {
  const std::int64_t count = c.in(0).shape().cols();
  return c.node("LayerNormalization",
                {x, or_filled(c, weight, count, 1), c.has(weight + 1) ? c.number(weight + 1) : ""},
                {{"axis", std::int64_t{-1}}, {"epsilon", eps}});
}
std::string rms_norm_of(Call& c, const std::string& x, int weight, double eps) {
  const std::string squares = c.node("Mul", {x, x});
  const std::string mean = c.node("ReduceMean", {squares}, {{"axes", Integers{-1}}, {"keepdims", std::int64_t{1}}});
  const std::string deviation = c.node("Sqrt", {c.node("Add", {mean, c.scalar(eps)})});
  const std::string y = c.node("Div", {x, deviation});
  return c.has(weight) ? c.node("Mul", {y, c.number(weight)}) : y;
}

using RowNorm = std::string (*)(Call&, const std::string&, int, double);
template <class Op, RowNorm norm>
void rows(Call& c) {
  c.result(0, norm(c, c.number(0), 1, c.params<Op>().eps));
}
/// Writes the sum, and the norm of the sum after rounding it to its stored dtype.
template <class Op, RowNorm norm>
void sum_and_rows(Call& c) {
  const std::string sum = c.node("Add", {c.number(0), c.number(1)});
  c.result(0, sum);
  const DType stored = c.out(0).dtype();
  const std::string rounded = c.cast(c.cast(sum, c.computing(), stored), stored, c.computing());
  c.result(1, norm(c, rounded, 2, c.params<Op>().eps));
}

}  // namespace

OpWriters norm_writers() {
  return {
      {&ops::BatchNorm::info, batch_norm},
      {&ops::GroupNorm::info, group_norm},
      {&ops::LayerNorm::info, rows<ops::LayerNorm, layer_norm_of>},
      {&ops::RmsNorm::info, rows<ops::RmsNorm, rms_norm_of>},
      {&ops::AddLayerNorm::info, sum_and_rows<ops::AddLayerNorm, layer_norm_of>},
      {&ops::AddRmsNorm::info, sum_and_rows<ops::AddRmsNorm, rms_norm_of>},
  };
}

}  // namespace binade::onnx
