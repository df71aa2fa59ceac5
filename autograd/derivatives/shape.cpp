#include "binade/autograd/derivatives/formulas.h"
#include "binade/autograd/derivatives/table.h"
#include "binade/autograd/derivatives/transposed.h"
#include "binade/core/ops/cast.h"
#include "binade/core/ops/concat.h"
#include "binade/core/ops/dropout.h"
#include "binade/core/ops/embedding.h"
#include "binade/core/ops/move.h"
#include "binade/core/ops/permute.h"
#include "binade/core/ops/reshape.h"
#include "binade/core/ops/slice.h"

namespace binade::derivatives {
namespace {

Variables permute_gradient(const RecordedCall& call) {
  const std::vector<int>& order = call.params<ops::Permute>().order;
  const int rank = static_cast<int>(order.size());
  std::vector<int> inverse(order.size());
  for (int d = 0; d < rank; ++d) {
    const int from = order[static_cast<std::size_t>(d)];
    inverse[static_cast<std::size_t>(from < 0 ? from + rank : from)] = d;
  }
  return {permute(call.gy(), inverse)};
}

Variables concat_gradients(const RecordedCall& call) {
  const int axis = ops::checked_axis(ops::Concat::info, call.params<ops::Concat>().axis, call.gy().value().rank());
  Variables g;
  std::int64_t begin = 0;
  for (int i = 0; i < static_cast<int>(call.context().inputs.size()); ++i) {
    const std::int64_t extent = call.described(i).shape[axis];
    g.push_back(call.needs(i) ? narrow(call.gy(), axis, begin, extent) : Variable());
    begin += extent;
  }
  return g;
}

constexpr Entry kEntries[] = {
    {&ops::Reshape::info, [](const RecordedCall& c) -> Variables { return {shaped(c.gy(), c.described(0).shape)}; }},
    {&ops::Permute::info, permute_gradient},
    {&ops::Slice::info, [](const RecordedCall& c) { return transposed<ops::Slice>(c); }},
    {&ops::Concat::info, concat_gradients},
    {&ops::Cast::info, [](const RecordedCall& c) -> Variables { return {c.gy()}; }},
    {&ops::Dropout::info, [](const RecordedCall& c) { return transposed<ops::Dropout>(c); }},
    {&ops::Embedding::info, [](const RecordedCall& c) { return transposed<ops::Embedding>(c, {c.saved(0)}); }},
};

}  // namespace

std::span<const Entry> derivatives_of_shape_ops() { return kEntries; }

}  // namespace binade::derivatives
