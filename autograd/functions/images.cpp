#include "binade/autograd/functions/images.h"

#include <algorithm>
#include <vector>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/index.h"
#include "binade/autograd/functions/pool.h"
#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/functions/reduce.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

constexpr std::int64_t kMostParts = 65536;
constexpr std::int64_t kMostFactor = 32768;  // its square does not overflow

void check_images(const char* name, const Variable& x) {
  constexpr std::int64_t kMost = ops::kMaxExtent;  // a product of two does not overflow
  check<ShapeError>(x.value().rank() == 4 && x.dim(1) <= kMost && x.dim(2) <= kMost && x.dim(3) <= kMost,
                    "{}: wanted images (N, H, W, C) with extents of at most 2^30, got {}", where(name), x.shape());
}

void check_floating(const char* name, const Variable& x) {
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted x of a floating dtype, got {}", where(name),
                    name_of(x.dtype()));
}

/// The windows of adaptive pooling that divide `extent` positions into `parts`.
struct Parts {
  std::int64_t longest = 0;
  std::vector<std::int64_t> positions{};  // (parts, longest); a shorter window repeats its last position
  // (parts, longest): 1 / the window's length. Repetitions share it: a share of 0 times an infinite element is NaN.
  std::vector<double> shares{};

  Parts(std::int64_t extent, std::int64_t parts) {
    const auto begin = [&](std::int64_t i) { return i * extent / parts; };
    const auto end = [&](std::int64_t i) { return ((i + 1) * extent + parts - 1) / parts; };
    for (std::int64_t i = 0; i < parts; ++i) longest = std::max(longest, end(i) - begin(i));
    for (std::int64_t i = 0; i < parts; ++i) {
      const std::int64_t length = end(i) - begin(i), repeats = longest - length + 1;
      for (std::int64_t j = 0; j < longest; ++j) {
        positions.push_back(std::min(begin(i) + j, end(i) - 1));
        shares.push_back(1 / static_cast<double>(length * (j < length - 1 ? 1 : repeats)));
      }
    }
  }
};

/// Adaptive pooling of one axis, 1 or 2, whose extent is no multiple of the number of parts.
Variable pooled_unevenly(const Variable& x, int axis, std::int64_t count, bool average) {
  const Parts parts(x.dim(axis), count);
  const Tensor positions = Tensor::from(parts.positions, {count * parts.longest}).to(x.device());
  const Variable windows = unflatten(index_select(x, axis, positions), axis, {count, parts.longest});
  if (!average) return max(windows, axis + 1).values;
  std::vector<std::int64_t> extents(5 - static_cast<std::size_t>(axis), 1);  // (count, longest, 1, …)
  extents[0] = count;
  extents[1] = parts.longest;
  return sum(windows * Tensor::from(parts.shares, Shape(extents)).to(x.dtype()).to(x.device()), axis + 1);
}

Variable adaptive_pool(const char* name, const Variable& x, Extent2 size, bool average) {
  check_images(name, x);
  check_floating(name, x);
  check<ArgumentError>(size.y >= 0 && size.y <= kMostParts && size.x >= 0 && size.x <= kMostParts,
                       "{}: wanted a size from 0 to {}, got {}", where(name), kMostParts, size);
  const std::int64_t height = x.dim(1), width = x.dim(2);
  check<ShapeError>(height > 0 && width > 0, "{}: wanted images with pixels, got {}", where(name), x.shape());
  const std::int64_t rows = size.y > 0 ? size.y : height, columns = size.x > 0 ? size.x : width;
  if (x.value().numel() == 0) return reshape(x, {x.dim(0), rows, columns, x.dim(3)});
  const bool even_rows = height % rows == 0, even_columns = width % columns == 0;
  const bool twice = average && !(even_rows && even_columns);
  Variable y = twice && is_half(x.dtype()) ? cast(x, DType::f32) : x;  // so that averages are rounded once
  // Columns first, so that among equal maxima the first one in row-major order is chosen.
  if (!even_columns) y = pooled_unevenly(y, 2, columns, average);
  const Extent2 kernel{even_rows ? height / rows : 1, even_columns ? width / columns : 1};
  if (kernel != Extent2(1)) y = average ? avg_pool2d(y, {.kernel = kernel}) : max_pool2d(y, {.kernel = kernel});
  return cast(even_rows ? y : pooled_unevenly(y, 1, rows, average), x.dtype());
}

}  // namespace

Variable channel_shuffle(const Variable& x, std::int64_t groups) {
  constexpr const char* kName = "channel_shuffle";
  check<ArgumentError>(groups >= 1, "{}: wanted 1 or more groups, got {}", where(kName), groups);
  check<ShapeError>(x.value().rank() > 0 && x.dim(-1) % groups == 0,
                    "{}: wanted x (…, C) with a multiple of {} channels, got {}", where(kName), groups, x.shape());
  return flatten(swapaxes(unflatten(x, -1, {groups, x.dim(-1) / groups}), -1, -2), -2, -1);
}

Variable pixel_shuffle(const Variable& x, std::int64_t factor) {
  constexpr const char* kName = "pixel_shuffle";
  check_images(kName, x);
  check<ArgumentError>(factor > 0 && factor <= kMostFactor, "{}: wanted a factor from 1 to {}, got {}", where(kName),
                       kMostFactor, factor);
  const std::int64_t n = x.dim(0), h = x.dim(1), w = x.dim(2), c = x.dim(3);
  check<ShapeError>(c % (factor * factor) == 0, "{}: wanted channels in groups of {} squared, got {}", where(kName),
                    factor, x.shape());
  const std::int64_t channels = c / (factor * factor);
  const Variable parts = permute(reshape(x, {n, h, w, channels, factor, factor}), {0, 1, 4, 2, 5, 3});
  return reshape(parts, {n, h * factor, w * factor, channels});
}

Variable pixel_unshuffle(const Variable& x, std::int64_t factor) {
  constexpr const char* kName = "pixel_unshuffle";
  check_images(kName, x);
  check<ArgumentError>(factor > 0 && factor <= kMostFactor, "{}: wanted a factor from 1 to {}, got {}", where(kName),
                       kMostFactor, factor);
  const std::int64_t n = x.dim(0), h = x.dim(1), w = x.dim(2), c = x.dim(3);
  check<ShapeError>(h % factor == 0 && w % factor == 0, "{}: wanted height and width in multiples of {}, got {}",
                    where(kName), factor, x.shape());
  const Variable parts = permute(reshape(x, {n, h / factor, factor, w / factor, factor, c}), {0, 1, 3, 5, 2, 4});
  return reshape(parts, {n, h / factor, w / factor, c * factor * factor});
}

Variable adaptive_avg_pool2d(const Variable& x, Extent2 size) {
  return adaptive_pool("adaptive_avg_pool2d", x, size, true);
}
Variable adaptive_max_pool2d(const Variable& x, Extent2 size) {
  return adaptive_pool("adaptive_max_pool2d", x, size, false);
}

namespace {

Variable adaptive_pool_of_sequences(const char* name, const Variable& x, std::int64_t size, bool average) {
  check<ShapeError>(x.value().rank() == 3, "{}: wanted sequences (N, L, C), got {}", where(name), x.shape());
  const Variable y = adaptive_pool(name, reshape(x, {x.dim(0), 1, x.dim(1), x.dim(2)}), {1, size}, average);
  return reshape(y, {y.dim(0), y.dim(2), y.dim(3)});
}

Variable adaptive_pool_of_volumes(const char* name, const Variable& x, Extent3 size, bool average) {
  check<ShapeError>(x.value().rank() == 5, "{}: wanted volumes (N, D, H, W, C), got {}", where(name), x.shape());
  check_floating(name, x);
  const std::int64_t n = x.dim(0), depth = x.dim(1), channels = x.dim(4);
  const Variable wide = average && is_half(x.dtype()) ? cast(x, DType::f32) : x;
  const Variable planes = adaptive_pool(name, reshape(wide, {n * depth, x.dim(2), x.dim(3), channels}), size.plane(),
                                        average);
  const std::int64_t height = planes.dim(1), width = planes.dim(2);
  // Depth last, so that among equal maxima the first one in row-major order is chosen.
  const Variable y = adaptive_pool(name, reshape(planes, {n, depth, 1, height * width * channels}), {size.z, 1},
                                   average);
  return cast(reshape(y, {n, y.dim(1), height, width, channels}), x.dtype());
}

}  // namespace

Variable adaptive_avg_pool1d(const Variable& x, std::int64_t size) {
  return adaptive_pool_of_sequences("adaptive_avg_pool1d", x, size, true);
}
Variable adaptive_max_pool1d(const Variable& x, std::int64_t size) {
  return adaptive_pool_of_sequences("adaptive_max_pool1d", x, size, false);
}
Variable adaptive_avg_pool3d(const Variable& x, Extent3 size) {
  return adaptive_pool_of_volumes("adaptive_avg_pool3d", x, size, true);
}
Variable adaptive_max_pool3d(const Variable& x, Extent3 size) {
  return adaptive_pool_of_volumes("adaptive_max_pool3d", x, size, false);
}

Variable local_response_norm(const Variable& x, std::int64_t size, double alpha, double beta, double k) {
  constexpr const char* kName = "local_response_norm";
  check<ArgumentError>(size >= 1 && size <= kMostParts, "{}: wanted a size from 1 to {}, got {}", where(kName),
                       kMostParts, size);
  check<ShapeError>(x.value().rank() >= 1, "{}: wanted x (…, C), got {}", where(kName), x.shape());
  check_floating(kName, x);
  if (x.value().numel() == 0) return x;
  const std::vector<std::int64_t> extents(x.shape().dims().begin(), x.shape().dims().end());
  const Variable widened = is_half(x.dtype()) ? cast(x, DType::f32) : x;
  const Variable squares = reshape(square(widened), {x.shape().rows(), 1, x.shape().cols(), 1});
  const Variable means = avg_pool2d(pad(squares, {0, 0, size / 2, (size - 1) / 2}), {.kernel = {1, size}, .stride = 1});
  return cast(widened / pow(reshape(means, extents) * alpha + k, beta), x.dtype());
}

}  // namespace binade
