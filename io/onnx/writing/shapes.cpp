#include <algorithm>

#include "binade/core/ops/concat.h"
#include "binade/core/ops/embedding.h"
#include "binade/core/ops/index.h"
#include "binade/core/ops/permute.h"
#include "binade/core/ops/rearrange.h"
#include "binade/core/ops/reshape.h"
#include "binade/core/ops/slice.h"
#include "binade/io/onnx/writing/recorder.h"

/// Ops that move values, which keep the dtype in which they are stored.
namespace binade::onnx {
namespace {

Integers dims_of(const Tensor& x) {
  const auto dims = x.shape().dims();
  return {dims.begin(), dims.end()};
}

std::int64_t from_start(int axis, int rank) { return axis < 0 ? axis + rank : axis; }

/// Converts the number of an axis of (N, H, W, C) to that in (N, C, H, W).
std::int64_t in_channels_first(std::int64_t axis) { return axis == 0 ? 0 : axis == 3 ? 1 : axis + 1; }

/// The operand and axis of an op that moves values along one axis. An image keeps the order in which it exists.
struct Along {
  bool first = false;
  std::int64_t axis = 0;
  std::string x{};
};
Along along(Call& c, int axis) {
  Along a{.first = c.prefers_channels_first(), .axis = from_start(axis, c.in(0).rank())};
  if (a.first) a.axis = in_channels_first(a.axis);
  a.x = c.operand(0, a.first, c.in(0).dtype());
  return a;
}
void moved(Call& c, const Along& a, const std::string& y) { c.result_as(0, y, c.in(0).dtype(), a.first); }

void reshape(Call& c) { c.set(0, {.rows = c.node("Reshape", {c.stored(0), c.list(dims_of(c.out()))})}); }

/// Writes one node `Transpose`, or none if an image already exists in the new order.
void permute(Call& c) {
  const int rank = c.in(0).rank();
  Integers order;
  for (const int d : c.params<ops::Permute>().order) order.push_back(from_start(d, rank));
  const Integers to_first{0, 3, 1, 2}, to_rows{0, 2, 3, 1};
  const RecordedValue x = c.is_constant(0) ? RecordedValue{.rows = c.stored(0)} : *c.value(0);
  if (rank == 4 && order == to_first && !x.channels_first.empty()) return c.set(0, {.rows = x.channels_first});
  if (x.rows.empty()) {
    for (std::int64_t& d : order) d = to_rows[static_cast<std::size_t>(d)];
    return c.set(0, {.rows = c.node("Transpose", {x.channels_first}, {{"perm", order}})});
  }
  if (rank == 4 && order == to_rows) return c.set(0, {.channels_first = x.rows});
  c.set(0, {.rows = c.node("Transpose", {x.rows}, {{"perm", order}})});
}

void slice(Call& c) {
  const auto& p = c.params<ops::Slice>();
  const Along a = along(c, p.axis);
  moved(c, a, c.node("Slice", {a.x, c.list({p.begin}), c.list({p.begin + p.count}), c.list({a.axis})}));
}

void concat(Call& c) {
  const bool first = c.prefers_channels_first();
  std::int64_t axis = from_start(c.params<ops::Concat>().axis, c.in(0).rank());
  if (first) axis = in_channels_first(axis);
  std::vector<std::string> parts;
  for (int i = 0; i < c.inputs(); ++i) parts.push_back(c.operand(i, first, c.out().dtype()));
  c.result_as(0, c.node("Concat", parts, {{"axis", axis}}), c.out().dtype(), first);
}

void expand(Call& c) { c.set(0, {.rows = c.node("Expand", {c.stored(0), c.list(dims_of(c.out()))})}); }

/// Moves values along one axis by an axis map: padding and slices have operators, any other map is a Gather.
void rearrange(Call& c) {
  const auto& p = c.params<ops::Rearrange>();
  no_counterpart_if(p.adjoint, std::string(p.name) + "() adds values at positions");
  const Along a = along(c, p.axis);
  const DType dtype = c.in(0).dtype();
  const AxisMap& map = p.map;
  const std::int64_t extent = c.in(0).dim(p.axis), last = p.count - 1;
  if (map.window == 1 && map.step == 1 && map.beyond == OutOfRangeRule::kFill && map.extent == extent) {
    const std::int64_t before = -map.begin, after = map.begin + p.count - extent;
    const auto rank = static_cast<std::size_t>(c.in(0).rank());
    Integers pads(2 * rank, 0);
    pads[static_cast<std::size_t>(a.axis)] = before;
    pads[static_cast<std::size_t>(a.axis) + rank] = after;
    return moved(c, a,
                 c.node("Pad", {a.x, c.list(pads), c.scalar(p.fill, dtype)}, {{"mode", std::string("constant")}}));
  }
  const bool inside = last < 0 || (map(0) >= 0 && map(last) >= 0);
  if (map.window == 1 && map.step > 0 && inside && last >= 0 && map(last) == map.begin + last * map.step &&
      map(0) == map.begin && map.begin >= 0)
    return moved(c, a,
                 c.node("Slice",
                        {a.x, c.list({map.begin}), c.list({map(last) + 1}), c.list({a.axis}), c.list({map.step})}));
  Integers positions;
  std::vector<std::uint8_t> holes;
  for (std::int64_t j = 0; j < p.count; ++j) {
    const std::int64_t s = map(j);
    holes.push_back(s < 0 ? 1 : 0);
    positions.push_back(std::max<std::int64_t>(s, 0));
  }
  std::string y = c.node("Gather", {a.x, c.list(positions)}, {{"axis", a.axis}});
  if (std::ranges::find(holes, 1) != holes.end()) {
    Integers dims(static_cast<std::size_t>(c.in(0).rank()), 1);
    dims[static_cast<std::size_t>(a.axis)] = p.count;
    const Tensor mask = Tensor::from(holes, Shape(std::span<const std::int64_t>(dims))).to(DType::boolean);
    y = c.node("Where", {c.tensor(mask), c.scalar(p.fill, dtype), y});
  }
  moved(c, a, y);
}

std::string index_of(Call& c, int i) { return c.as(i, DType::i64); }

void gather(Call& c) {
  const std::int64_t axis = from_start(c.params<ops::Gather>().axis, c.in(0).rank());
  c.set(0, {.rows = c.node("GatherElements", {c.stored(0), index_of(c, 1)}, {{"axis", axis}})});
}

void index_select(Call& c) {
  const std::int64_t axis = from_start(c.params<ops::IndexSelect>().axis, c.in(0).rank());
  std::string index = index_of(c, 1);
  if (c.in(1).rank() == 0) index = c.node("Reshape", {index, c.list({1})});
  c.set(0, {.rows = c.node("Gather", {c.stored(0), index}, {{"axis", axis}})});
}

void embedding(Call& c) {
  const std::string y = c.node("Gather", {c.stored(0), index_of(c, 1)}, {{"axis", std::int64_t{0}}});
  c.result_as(0, y, c.in(0).dtype());
}

void scatter(Call& c) {
  const auto& p = c.params<ops::Scatter>();
  no_counterpart_if(!p.include_self, "ScatterElements includes the values that it writes to");
  std::string reduction;
  switch (p.how) {
    case Scattering::kAssign: reduction = "none"; break;
    case Scattering::kAdd: reduction = "add"; break;
    case Scattering::kProduct: reduction = "mul"; break;
    default: no_counterpart("ScatterElements of opset 17 has no extrema and no mean");
  }
  const std::int64_t axis = from_start(p.axis, c.in(0).rank());
  const DType dtype = p.how == Scattering::kAssign ? c.out().dtype() : c.computing();
  std::string index = index_of(c, 1), source = c.as(2, dtype);
  Integers dims = dims_of(c.in(1));
  if (p.by_row) {
    dims = dims_of(c.in(0));
    dims[static_cast<std::size_t>(axis)] = c.in(1).numel();
    Integers row(dims.size(), 1);
    row[static_cast<std::size_t>(axis)] = c.in(1).numel();
    index = c.node("Expand", {c.node("Reshape", {index, c.list(row)}), c.list(dims)});
  }
  if (dims_of(c.in(2)) != dims) {
    source = c.node("Expand", {c.node("Reshape", {source, c.list(Integers(dims.size(), 1))}), c.list(dims)});
  }
  const std::string y = c.node("ScatterElements", {c.as(0, dtype), index, source},
                               {{"axis", axis}, {"reduction", reduction}});
  c.result_as(0, y, dtype);
}

}  // namespace

OpWriters shape_writers() {
  return {
      {&ops::Reshape::info, reshape},     {&ops::Permute::info, permute},
      {&ops::Slice::info, slice},         {&ops::Concat::info, concat},
      {&ops::Expand::info, expand},       {&ops::Rearrange::info, rearrange},
      {&ops::Gather::info, gather},       {&ops::IndexSelect::info, index_select},
      {&ops::Embedding::info, embedding}, {&ops::Scatter::info, scatter},
  };
}

}  // namespace binade::onnx
