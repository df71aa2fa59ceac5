#include "binade/core/kernels/cpu/column_blocks.h"

#include <algorithm>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/tensor.h"

namespace binade::cpu {
namespace {

/// Number of values of a block. They are 128 KiB in f32, so that they stay in the L2 cache for a second pass.
constexpr std::int64_t kBlockValues = 1 << 15;
/// Largest number of rows of a block. The sums within a block are f32, and the sums of blocks are added in double.
constexpr std::int64_t kBlockRows = 512;

/// Runs `reduce`, which gives two values per channel and block, and calls add(result, rows, first, second) for each
/// channel of each block, in block order.
template <class C, class Result, class Add>
std::vector<Result> reduced(ColumnBlocks a, void (*reduce)(const ColumnBlocks&), Add&& add) {
  Tensor partial = Tensor::empty(Shape{a.samples, a.blocks(), 2, a.cols}, accumulate_dtype(a.dtype));
  a.partial = partial.mutable_raw();
  reduce(a);
  std::vector<Result> results(static_cast<std::size_t>(a.samples * a.cols));
  const C* values = partial.data<C>();
  for (std::int64_t sample = 0; sample < a.samples; ++sample)
    for (std::int64_t block = 0; block < a.blocks(); ++block, values += 2 * a.cols) {
      const auto rows = static_cast<double>(std::min(a.rows_per_block, a.rows - block * a.rows_per_block));
      for (std::int64_t c = 0; c < a.cols; ++c)
        add(results[static_cast<std::size_t>(sample * a.cols + c)], rows, values[c], values[a.cols + c]);
    }
  return results;
}

}  // namespace

ColumnBlocks column_blocks(const Columns& columns) {
  ColumnBlocks blocks{columns};
  blocks.rows_per_block = std::clamp<std::int64_t>(kBlockValues / std::max<std::int64_t>(1, columns.cols), 1,
                                                   kBlockRows);
  return blocks;
}

template <class C>
std::vector<RunningMoments> channel_moments(const ColumnBlocks& columns) {
  return reduced<C, RunningMoments>(columns, level().column_norm.moments,
                                    [](RunningMoments& to, double rows, C mean, C squares) {
                                      to.add(rows, mean, squares);
                                    });
}

template <class C>
std::vector<GradientSums> channel_gradient_sums(const ColumnBlocks& columns) {
  return reduced<C, GradientSums>(columns, level().column_norm.gradient_sums,
                                  [](GradientSums& to, double, C sum, C product) {
                                    to.sum += sum;
                                    to.product += product;
                                  });
}

template std::vector<RunningMoments> channel_moments<float>(const ColumnBlocks&);
template std::vector<RunningMoments> channel_moments<double>(const ColumnBlocks&);
template std::vector<GradientSums> channel_gradient_sums<float>(const ColumnBlocks&);
template std::vector<GradientSums> channel_gradient_sums<double>(const ColumnBlocks&);

}  // namespace binade::cpu
