#include "binade/io/data/augment.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "binade/core/error.h"

namespace binade::io {
namespace {

void check_pair(const ImagePair& pair) {
  check<ShapeError>(pair.image.rank() == 3 && pair.image.numel() > 0, "augment: wanted an image (H, W, C), got {}",
                    pair.image.shape().to_string());
  check<ShapeError>(!pair.mask.defined() || (pair.mask.rank() == 2 && pair.mask.dim(0) == pair.image.dim(0) &&
                                             pair.mask.dim(1) == pair.image.dim(1)),
                    "augment: wanted a mask (H, W) of the image {}, got {}", pair.image.shape().to_string(),
                    pair.mask.defined() ? pair.mask.shape().to_string() : "");
}

/// Returns the source pixel at index i of an endlessly mirrored row of n pixels: … 2 1 | 0 1 2 … n-1 | n-2 n-3 …
std::int64_t mirror(std::int64_t i, std::int64_t n) {
  if (n == 1) return 0;
  const std::int64_t period = 2 * (n - 1);
  i = ((i % period) + period) % period;
  return i < n ? i : period - i;
}

ImagePair on_host(const ImagePair& pair) {
  return {pair.image.on_host(), pair.mask.defined() ? pair.mask.on_host() : Tensor()};
}

/// Allocates a pair of the given size with the channels of `pair`, and with a mask if `pair` has one.
ImagePair empty_pair(const ImagePair& pair, std::int64_t height, std::int64_t width) {
  return {Tensor::empty({height, width, pair.image.dim(2)}),
          pair.mask.defined() ? Tensor::empty({height, width}, DType::u8) : Tensor()};
}

/// Copies whole pixels, without interpolation: pixel (i, j) of the result is pixel from(i, j) of `pair`.
template <class From>
ImagePair move_pixels(const ImagePair& pair, std::int64_t height, std::int64_t width, From from) {
  check_pair(pair);
  const std::int64_t channels = pair.image.dim(2);
  const std::int64_t source_width = pair.image.dim(1);
  const auto [image, mask] = on_host(pair);
  ImagePair result = empty_pair(pair, height, width);
  const float* source = image.data<float>();
  const std::uint8_t* source_mask = mask.defined() ? mask.data<std::uint8_t>() : nullptr;
  float* to = result.image.mutable_data<float>();
  std::uint8_t* to_mask = mask.defined() ? result.mask.mutable_data<std::uint8_t>() : nullptr;
  for (std::int64_t i = 0; i < height; ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      const auto [y, x] = from(i, j);
      const std::int64_t at = y * source_width + x;
      std::copy_n(source + at * channels, channels, to + (i * width + j) * channels);
      if (source_mask != nullptr) to_mask[i * width + j] = source_mask[at];
    }
  }
  return result;
}

using Pixel = std::pair<std::int64_t, std::int64_t>;

std::vector<double> gaussian(double sigma) {
  const auto radius = static_cast<std::int64_t>(std::floor(4 * sigma + 0.5));
  std::vector<double> weights(static_cast<std::size_t>(2 * radius + 1));
  double sum = 0;
  for (std::int64_t k = -radius; k <= radius; ++k)
    sum += weights[static_cast<std::size_t>(k + radius)] = std::exp(-0.5 * static_cast<double>(k * k) /
                                                                    (sigma * sigma));
  for (double& weight : weights) weight /= sum;
  return weights;
}

/// Convolves the `lines` rows (or columns) of an array with `weights`; outside a line the values are 0. A line has
/// `length` elements, which are `step` apart; the lines are `line_step` apart.
std::vector<float> smooth_lines(const std::vector<float>& values, const std::vector<double>& weights,
                                std::int64_t lines, std::int64_t line_step, std::int64_t length, std::int64_t step) {
  const auto radius = static_cast<std::int64_t>(weights.size() / 2);
  std::vector<float> result(values.size());
  for (std::int64_t line = 0; line < lines; ++line) {
    for (std::int64_t i = 0; i < length; ++i) {
      double sum = 0;
      for (std::int64_t j = std::max<std::int64_t>(0, i - radius); j <= std::min(length - 1, i + radius); ++j)
        sum += weights[static_cast<std::size_t>(j - i + radius)] *
               values[static_cast<std::size_t>(line * line_step + j * step)];
      result[static_cast<std::size_t>(line * line_step + i * step)] = static_cast<float>(sum);
    }
  }
  return result;
}

}  // namespace

ImagePair flip_horizontal(const ImagePair& pair) {
  const std::int64_t width = pair.image.dim(1);
  return move_pixels(pair, pair.image.dim(0), width,
                     [=](std::int64_t i, std::int64_t j) { return Pixel(i, width - 1 - j); });
}

ImagePair flip_vertical(const ImagePair& pair) {
  const std::int64_t height = pair.image.dim(0);
  return move_pixels(pair, height, pair.image.dim(1),
                     [=](std::int64_t i, std::int64_t j) { return Pixel(height - 1 - i, j); });
}

ImagePair rotate90(const ImagePair& pair, int turns) {
  const std::int64_t height = pair.image.dim(0);
  const std::int64_t width = pair.image.dim(1);
  switch (((turns % 4) + 4) % 4) {
    case 0: return pair;
    case 1:
      return move_pixels(pair, width, height, [=](std::int64_t i, std::int64_t j) { return Pixel(j, width - 1 - i); });
    case 2:
      return move_pixels(pair, height, width,
                         [=](std::int64_t i, std::int64_t j) { return Pixel(height - 1 - i, width - 1 - j); });
    default:
      return move_pixels(pair, width, height, [=](std::int64_t i, std::int64_t j) { return Pixel(height - 1 - j, i); });
  }
}

ImagePair crop(const ImagePair& pair, std::int64_t y, std::int64_t x, std::int64_t height, std::int64_t width) {
  check<ArgumentError>(height >= 1 && width >= 1, "crop: wanted at least one pixel, got {} x {}", height, width);
  const std::int64_t rows = pair.image.dim(0);
  const std::int64_t columns = pair.image.dim(1);
  return move_pixels(pair, height, width, [=](std::int64_t i, std::int64_t j) {
    return Pixel(mirror(y + i, rows), mirror(x + j, columns));
  });
}

CoordinateMap CoordinateMap::window(double y, double x, std::int64_t height, std::int64_t width) {
  CoordinateMap map{height, width, {}, {}};
  map.y.reserve(static_cast<std::size_t>(height * width));
  map.x.reserve(static_cast<std::size_t>(height * width));
  for (std::int64_t i = 0; i < height; ++i)
    for (std::int64_t j = 0; j < width; ++j) {
      map.y.push_back(static_cast<float>(y + static_cast<double>(i)));
      map.x.push_back(static_cast<float>(x + static_cast<double>(j)));
    }
  return map;
}

void CoordinateMap::rotate(double radians) {
  if (y.empty()) return;
  const double center_y = (static_cast<double>(y.front()) + y.back()) / 2;
  const double center_x = (static_cast<double>(x.front()) + x.back()) / 2;
  const double c = std::cos(radians);
  const double s = std::sin(radians);
  for (std::size_t k = 0; k < y.size(); ++k) {
    const double v = y[k] - center_y;  // y points down, so this is counter-clockwise on the screen
    const double u = x[k] - center_x;
    y[k] = static_cast<float>(center_y + c * v + s * u);
    x[k] = static_cast<float>(center_x - s * v + c * u);
  }
}

void CoordinateMap::displace(const std::vector<float>& dy, const std::vector<float>& dx) {
  check<ArgumentError>(dy.size() == y.size() && dx.size() == x.size(),
                       "displace: wanted fields of {} elements, got {} and {}", y.size(), dy.size(), dx.size());
  for (std::size_t k = 0; k < y.size(); ++k) {
    y[k] += dy[k];
    x[k] += dx[k];
  }
}

ImagePair sample(const ImagePair& pair, const CoordinateMap& map) {
  check_pair(pair);
  const std::int64_t rows = pair.image.dim(0);
  const std::int64_t columns = pair.image.dim(1);
  const std::int64_t channels = pair.image.dim(2);
  const auto [image, mask] = on_host(pair);
  ImagePair result = empty_pair(pair, map.height, map.width);
  const float* source = image.data<float>();
  float* to = result.image.mutable_data<float>();
  for (std::size_t k = 0; k < map.y.size(); ++k) {
    const auto top = static_cast<std::int64_t>(std::floor(map.y[k]));
    const auto left = static_cast<std::int64_t>(std::floor(map.x[k]));
    const float v = map.y[k] - static_cast<float>(top);
    const float u = map.x[k] - static_cast<float>(left);
    const std::int64_t y0 = mirror(top, rows) * columns;
    const std::int64_t y1 = mirror(top + 1, rows) * columns;
    const std::int64_t x0 = mirror(left, columns);
    const std::int64_t x1 = mirror(left + 1, columns);
    for (std::int64_t c = 0; c < channels; ++c) {
      const float above = (1 - u) * source[(y0 + x0) * channels + c] + u * source[(y0 + x1) * channels + c];
      const float below = (1 - u) * source[(y1 + x0) * channels + c] + u * source[(y1 + x1) * channels + c];
      to[static_cast<std::int64_t>(k) * channels + c] = (1 - v) * above + v * below;
    }
    if (mask.defined())
      result.mask.mutable_data<std::uint8_t>()[k] =
          mask.data<std::uint8_t>()[mirror(static_cast<std::int64_t>(std::floor(map.y[k] + 0.5f)), rows) * columns +
                                    mirror(static_cast<std::int64_t>(std::floor(map.x[k] + 0.5f)), columns)];
  }
  return result;
}

std::vector<float> elastic_field(const RandomStream& stream, std::int64_t height, std::int64_t width, double alpha,
                                 double sigma) {
  check<ArgumentError>(sigma > 0 && sigma <= 1000 && std::isfinite(alpha), "elastic: wanted sigma in (0, 1000], got {}",
                       sigma);
  std::vector<float> field(static_cast<std::size_t>(height * width));
  for (std::size_t k = 0; k < field.size(); ++k) field[k] = 2 * stream.uniform(k) - 1;
  const std::vector<double> weights = gaussian(sigma);
  field = smooth_lines(field, weights, height, width, width, 1);
  field = smooth_lines(field, weights, width, 1, height, width);
  for (float& value : field) value = static_cast<float>(alpha * value);
  return field;
}

ImagePair augment(const ImagePair& pair, std::int64_t size, const AugmentOptions& options, RandomStream stream) {
  check_pair(pair);
  const std::int64_t rows = pair.image.dim(0);
  const std::int64_t columns = pair.image.dim(1);
  const std::int64_t height = size > 0 ? size : rows;
  const std::int64_t width = size > 0 ? size : columns;
  stream.index = 0;  // for all draws except those of the elastic fields, which use index 1 and 2
  const auto random_offset = [&](std::uint64_t i, std::int64_t range) {
    return range > 0 ? static_cast<std::int64_t>(stream.below(i, static_cast<std::uint64_t>(range) + 1)) : range / 2;
  };
  const std::int64_t y = random_offset(0, rows - height);
  const std::int64_t x = random_offset(1, columns - width);

  ImagePair result;
  const bool warped = options.rotate_degrees > 0 || options.elastic_alpha != 0;
  if (warped) {
    CoordinateMap map = CoordinateMap::window(static_cast<double>(y), static_cast<double>(x), height, width);
    if (options.rotate_degrees > 0)
      map.rotate((2.0 * stream.uniform(2) - 1) * options.rotate_degrees * std::numbers::pi / 180);
    if (options.elastic_alpha != 0) {
      RandomStream rows_stream = stream;
      rows_stream.index = 1;
      RandomStream columns_stream = stream;
      columns_stream.index = 2;
      map.displace(elastic_field(rows_stream, height, width, options.elastic_alpha, options.elastic_sigma),
                   elastic_field(columns_stream, height, width, options.elastic_alpha, options.elastic_sigma));
    }
    result = sample(pair, map);
  } else {
    result = crop(pair, y, x, height, width);
  }
  if (options.rotate90) {
    const int turns = static_cast<int>(stream.below(3, 4));
    result = rotate90(result, height == width ? turns : turns & 2);
  }
  if (options.flip && stream.below(4, 2) == 1) result = flip_horizontal(result);
  if (options.flip && stream.below(5, 2) == 1) result = flip_vertical(result);
  return result;
}

Tensor pad_to_multiple(const Tensor& image, std::int64_t multiple) {
  check<ArgumentError>(multiple >= 1, "pad: wanted a multiple of at least 1, got {}", multiple);
  const auto rounded_up = [&](std::int64_t n) { return (n + multiple - 1) / multiple * multiple; };
  return crop({image, {}}, 0, 0, rounded_up(image.dim(0)), rounded_up(image.dim(1))).image;
}

}  // namespace binade::io
