#include <algorithm>
#include <vector>

#include "binade/core/kernels/cpu/kernels.h"
#include "binade/core/kernels/cpu/walk.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/kernels/views.h"
#include "binade/core/observation.h"
#include "binade/core/ops/formulas.h"

namespace binade::cpu {
namespace {

constexpr std::int64_t kGrain = 1 << 14;    // elements that one thread reduces in sequence
constexpr std::int64_t kColumns = 1 << 12;  // number of columns of a chunk, which stay in cache
constexpr std::int64_t kLeastRows =
    32;  // smallest number of rows of a chunk, which limits the number of partial results

/// Extents of a contiguous tensor seen as (outer, reduced, inner).
struct View {
  std::int64_t outer, reduced, inner;
};

/// Combines the chunks of partial (outer, chunks, inner) pairwise into the first chunk.
void combine_chunks(Tensor& partial, std::int64_t outer, std::int64_t chunks, std::int64_t inner,
                    const ReduceLoops& loops) {
  const bool is_double = partial.dtype() == DType::f64;
  const Out base = output(partial);
  const std::int64_t slices = (inner + kColumns - 1) / kColumns;
  parallel_blocks(outer * slices, [&](std::int64_t block) {
    const std::int64_t column = block % slices * kColumns;
    const std::int64_t count = std::min(kColumns, inner - column);
    const Out start = base.at(block / slices * chunks * inner + column);
    for (std::int64_t distance = 1; distance < chunks; distance *= 2)
      for (std::int64_t i = 0; i + distance < chunks; i += 2 * distance)
        loops.combine(start.at(i * inner).data, start.at((i + distance) * inner).data, count, is_double);
  });
}

/// Combines the chunks of partial (outer, chunks, inner) and returns the result (outer, inner).
Tensor combined(Tensor& partial, const View& v, std::int64_t chunks, const ReduceLoops& loops) {
  if (chunks == 1) return partial;
  combine_chunks(partial, v.outer, chunks, v.inner, loops);
  Tensor total = Tensor::empty(Shape{v.outer, v.inner}, partial.dtype());
  for (std::int64_t o = 0; o < v.outer; ++o)
    total.narrow(o, 1).copy_from(partial.narrow(o, 1).reshape(Shape{chunks, v.inner}).narrow(0, 1));
  return total;
}

/// Reduces x (outer, reduced), whose rows are contiguous, to (outer, 1), in the accumulate dtype.
Tensor reduce_rows(In x, const View& v, const ReduceLoops& loops) {
  const std::int64_t chunks = std::max<std::int64_t>(1, (v.reduced + kGrain - 1) / kGrain);
  const std::int64_t rows_per_task = chunks > 1
                                         ? 1
                                         : std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(v.reduced, 1));
  Tensor partial = Tensor::empty(Shape{v.outer, chunks, 1}, accumulate_dtype(x.dtype));
  const Out results = output(partial);
  parallel_for(v.outer * chunks, rows_per_task, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i % chunks * kGrain;
      loops.run(x.at(i / chunks * v.reduced + first), std::min(kGrain, v.reduced - first), results.at(i).data);
    }
  });
  return combined(partial, v, chunks, loops);
}

/// Reduces x (outer, reduced, inner) row by row to (outer, inner), in the accumulate dtype.
Tensor reduce_columns(In x, const View& v, const ReduceLoops& loops) {
  const std::int64_t rows = std::max(kLeastRows, kGrain / 2 / std::max<std::int64_t>(v.inner, 1));
  const std::int64_t chunks = std::max<std::int64_t>(1, (v.reduced + rows - 1) / rows);
  const std::int64_t slices = (v.inner + kColumns - 1) / kColumns;
  Tensor partial = Tensor::empty(Shape{v.outer, chunks, v.inner}, accumulate_dtype(x.dtype));
  const Out results = output(partial);
  parallel_blocks(v.outer * chunks * slices, [&](std::int64_t block) {
    const std::int64_t column = block % slices * kColumns;
    const std::int64_t chunk = block / slices % chunks;
    const std::int64_t o = block / slices / chunks;
    loops.rows(x.at((o * v.reduced + chunk * rows) * v.inner + column), std::min(rows, v.reduced - chunk * rows),
               v.inner, std::min(kColumns, v.inner - column), results.at((o * chunks + chunk) * v.inner + column).data);
  });
  return combined(partial, v, chunks, loops);
}

/// Neighboring dimensions that are all reduced or all kept.
struct Group {
  std::int64_t extent;
  bool reduced;
};

/// Returns the groups of a dense x, outermost first; neighbors that are both reduced or both kept are merged.
std::vector<Group> groups_of(const ReduceArgs& a) {
  std::vector<Group> groups;
  for (int g = 0; g < a.groups; ++g) {
    if (a.extents[g] == 1) continue;
    if (!groups.empty() && groups.back().reduced == a.reduced[g])
      groups.back().extent *= a.extents[g];
    else
      groups.push_back({a.extents[g], a.reduced[g]});
  }
  return groups;
}

/// Returns a contiguous copy of x.
Tensor dense(const ReduceArgs& a) {
  std::int64_t rows = 1;
  const std::int64_t cols = a.pitch != 0 ? a.extents[a.groups - 1] : 1;
  for (int g = 0; g < a.groups - (a.pitch != 0 ? 1 : 0); ++g) rows *= a.extents[g];
  Tensor copy = Tensor::empty(Shape{rows, cols}, a.x.dtype);
  const InputRows from{a.x.data, a.x.dtype, a.pitch};
  if (copy.numel() == 0) return copy;
  if (a.pitch != 0)
    run_convert({.to = output_rows(copy), .from = from, .rows = rows, .cols = cols});
  else
    run_convert({.to = output_rows(copy), .from = from, .rows = 1, .cols = rows});
  return copy;
}

/// Reduces one group at a time, from the innermost outwards.
Tensor reduced(const ReduceArgs& a, const ReduceLoops& loops) {
  std::vector<Group> groups = groups_of(a);
  Tensor value;
  const bool any = std::ranges::any_of(groups, &Group::reduced);
  if (a.pitch != 0 || !any) value = dense(a);
  for (std::size_t g = groups.size(); g-- > 0;) {
    if (!groups[g].reduced) continue;
    View view{1, groups[g].extent, 1};
    for (std::size_t i = 0; i < g; ++i) view.outer *= groups[i].extent;
    for (std::size_t i = g + 1; i < groups.size(); ++i) view.inner *= groups[i].extent;
    const In x = value.defined() ? input(value) : a.x;
    value = view.inner == 1 ? reduce_rows(x, view, loops) : reduce_columns(x, view, loops);
    groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(g));
  }
  return value;
}

}  // namespace

void run_reduce(const ReduceArgs& a) {
  const ReductionKernels& loops = *level().reduction;
  const Tensor total = reduced(a, a.largest ? loops.max : loops.sum);
  const std::int64_t count = total.numel();
  if (a.divisor != 1) {
    UnaryArgs divide{.op = ops::position_in<ops::DivScalar>(ops::UnaryOps{}),
                     .params = OpParams(ops::DivScalar::Params{a.divisor})};
    divide.walk = {.runs = count > 0 ? 1 : 0, .length = count, .steps = {1, 1}};
    divide.in[0] = input(total);
    divide.out = a.y;
    return run_unary(divide);
  }
  if (count > 0) run_convert({.to = {a.y.data, a.y.dtype, count}, .from = input_rows(total), .rows = 1, .cols = count});
  if (a.largest) return;
  const Observation observed = observe(total);  // observes the total before it is rounded
  binade::detail::note(size_of(a.y.dtype) == 2 ? Observation{.low = observed.wide} : observed);
}

void run_max_gradient(const MaxGradientArgs& a) {
  for_each_chunk(a.walk, [&](const Offsets& at, std::int64_t n) {
    level().reduction->max_gradient(a.in[0].at(at[0]), a.in[1].at(at[1]), a.walk.steps[1], a.in[2].at(at[2]),
                                    a.walk.steps[2], a.out.at(at[3]), n);
  });
}

}  // namespace binade::cpu
