#include "binade/core/kernels/cpu/column_blocks.h"

#include <algorithm>

#include "binade/core/kernels/dispatch.h"
#include "binade/core/tensor.h"

namespace binade::cpu {
namespace {

/// Values of a block: 128 KiB of f32, which stay in the L2 cache for a second pass.
constexpr std::int64_t kBlockValues = 1 << 15;
/// Most rows summed in f32 before the sums continue in double.
constexpr std::int64_t kBlockRows = 512;

Tensor partials(const ColumnShape& s) {
  return Tensor::empty(Shape{s.samples, s.blocks(), 2, s.cols}, accumulate_dtype(s.dtype));
}

}  // namespace

ColumnShape column_blocks(const ChannelNorm& norm) {
  ColumnShape shape{.dtype = norm.dtype, .samples = norm.samples, .rows = norm.rows, .cols = norm.cols};
  shape.rows_per_block = std::clamp<std::int64_t>(kBlockValues / std::max<std::int64_t>(1, norm.cols), 1, kBlockRows);
  return shape;
}

template <class C>
ColumnApply column_apply(const ChannelNormForward& a, const Affine<C>& affine) {
  ColumnApply apply{column_blocks(a)};
  apply.relu = a.relu;
  apply.x = a.x;
  apply.x_pitch = a.x_pitch;
  apply.residual = a.residual;
  apply.residual_pitch = a.residual_pitch;
  apply.mean = affine.mean.data();
  apply.scale = affine.scale.data();
  apply.bias = affine.bias.data();
  apply.y = a.y;
  apply.y_pitch = a.y_pitch;
  return apply;
}

template <class C>
ColumnGradientApply column_gradient(const ChannelNormBackward& a, const Affine<C>& affine) {
  ColumnGradientApply g{{column_blocks(a)}};
  g.relu = a.relu;
  g.x = a.x;
  g.x_pitch = a.x_pitch;
  g.y = a.y;
  g.y_pitch = a.y_pitch;
  g.gy = a.gy;
  g.gy_pitch = a.gy_pitch;
  g.mean = affine.mean.data();
  g.scale = affine.scale.data();
  g.bias = affine.bias.data();
  g.gx = a.gx;
  g.gr = a.gresidual;
  return g;
}

template <class C>
ChannelMoments channel_moments(const ColumnShape& shape, const void* x, std::int64_t x_pitch) {
  Tensor partial = partials(shape);
  ColumnMoments moments{shape};
  moments.x = x;
  moments.x_pitch = x_pitch;
  moments.partial = partial.mutable_raw();
  level().column_norm.moments(moments);

  std::vector<RunningMoments> running(static_cast<std::size_t>(shape.samples * shape.cols));
  const C* block_part = partial.data<C>();
  for (std::int64_t sample = 0; sample < shape.samples; ++sample)
    for (std::int64_t block = 0; block < shape.blocks(); ++block, block_part += 2 * shape.cols) {
      const auto count = static_cast<double>(std::min(shape.rows_per_block, shape.rows - block * shape.rows_per_block));
      for (std::int64_t c = 0; c < shape.cols; ++c)
        running[static_cast<std::size_t>(sample * shape.cols + c)].add(count, block_part[c],
                                                                       block_part[shape.cols + c]);
    }
  ChannelMoments result;
  for (const RunningMoments& r : running) {
    result.mean.push_back(r.mean);
    result.squares.push_back(r.squares);
  }
  return result;
}

template <class C>
ChannelSums channel_gradient_sums(ColumnGradientSums gradient) {
  Tensor partial = partials(gradient);
  gradient.partial = partial.mutable_raw();
  level().column_norm.gradient_sums(gradient);

  ChannelSums result;
  result.sum.resize(static_cast<std::size_t>(gradient.samples * gradient.cols));
  result.product.resize(result.sum.size());
  const C* block_part = partial.data<C>();
  for (std::int64_t sample = 0; sample < gradient.samples; ++sample)
    for (std::int64_t block = 0; block < gradient.blocks(); ++block, block_part += 2 * gradient.cols)
      for (std::int64_t c = 0; c < gradient.cols; ++c) {
        const auto at = static_cast<std::size_t>(sample * gradient.cols + c);
        result.sum[at] += block_part[c];
        result.product[at] += block_part[gradient.cols + c];
      }
  return result;
}

template ColumnApply column_apply(const ChannelNormForward&, const Affine<float>&);
template ColumnApply column_apply(const ChannelNormForward&, const Affine<double>&);
template ColumnGradientApply column_gradient(const ChannelNormBackward&, const Affine<float>&);
template ColumnGradientApply column_gradient(const ChannelNormBackward&, const Affine<double>&);
template ChannelMoments channel_moments<float>(const ColumnShape&, const void*, std::int64_t);
template ChannelMoments channel_moments<double>(const ColumnShape&, const void*, std::int64_t);
template ChannelSums channel_gradient_sums<float>(ColumnGradientSums);
template ChannelSums channel_gradient_sums<double>(ColumnGradientSums);

}  // namespace binade::cpu
