#include "binade/io/data/image_transforms.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "binade/core/error.h"
#include "binade/io/data/augment.h"

namespace binade::io {
namespace {

void check_image(const char* op, const Tensor& image) {
  check<ShapeError>(image.defined() && image.rank() == 3 && image.numel() > 0 && image.dtype() == DType::f32,
                    "{}: wanted an image (H, W, C) of f32, got {}", op,
                    image.defined() ? fmt::format("{} {}", name_of(image.dtype()), image.shape()) : "none");
}
void check_size(const char* op, std::int64_t height, std::int64_t width) {
  check<ArgumentError>(height >= 1 && width >= 1, "{}: wanted at least one pixel, got {} x {}", op, height, width);
}

void check_factor(const char* op, double factor) {
  check<ArgumentError>(factor >= 0 && std::isfinite(factor), "{}: wanted a finite factor >= 0, got {}", op, factor);
}

/// Returns a uniform number in [low, high) from word i.
double between(const RandomStream& random, std::uint64_t i, double low, double high) {
  return low + (high - low) * random.uniform(i);
}
std::int64_t offset(const RandomStream& random, std::uint64_t i, std::int64_t range) {
  return static_cast<std::int64_t>(random.below(i, static_cast<std::uint64_t>(range) + 1));
}

/// The source pixels from which one result pixel is computed: the first one, and the weight of each.
struct Taps {
  std::int64_t first = 0;
  std::vector<double> weights{};
};

std::vector<Taps> taps_of(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), reach = std::max(1.0, scale);
  std::vector<Taps> all(static_cast<std::size_t>(to));
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(center - reach + 0.5)));
    const auto end = std::min<std::int64_t>(from, static_cast<std::int64_t>(std::floor(center + reach + 0.5)));
    Taps& taps = all[static_cast<std::size_t>(i)];
    taps.first = first;
    double sum = 0;
    for (std::int64_t k = first; k < end; ++k) {
      const double w = std::max(0.0, 1 - std::abs((static_cast<double>(k) + 0.5 - center) / reach));
      taps.weights.push_back(w);
      sum += w;
    }
    for (double& w : taps.weights) w /= sum;
  }
  return all;
}

/// Applies `f` in place to each pixel of a copy of the image, and clamps the result to 0 … 1.
template <class F>
Tensor each_pixel(const Tensor& image, F f) {
  Tensor result = image.clone();
  const std::int64_t channels = image.dim(2);
  float* values = result.mutable_data<float>();
  for (std::int64_t i = 0; i < image.numel(); i += channels) f(values + i);
  for (std::int64_t i = 0; i < image.numel(); ++i) values[i] = std::clamp(values[i], 0.0f, 1.0f);
  return result;
}

float grey_of(const float* p, std::int64_t channels) {
  return channels < 3 ? p[0] : 0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2];
}

Tensor window(const Tensor& image, std::int64_t y, std::int64_t x, std::int64_t height, std::int64_t width) {
  return crop({image, {}}, y, x, height, width).image;
}

/// A rectangle of random area and ratio in an image; height 0 if none of 10 drawn ones fits. Uses words 0 to 39.
struct Rectangle {
  std::int64_t y = 0, x = 0, height = 0, width = 0;
};
Rectangle draw_rectangle(const RandomStream& random, std::int64_t rows, std::int64_t columns, double min_area,
                         double max_area, double min_ratio, double max_ratio) {
  for (std::uint64_t i = 0; i < 40; i += 4) {
    const double area = between(random, i, min_area, max_area) * static_cast<double>(rows * columns);
    const double ratio = std::exp(between(random, i + 1, std::log(min_ratio), std::log(max_ratio)));
    const auto width = static_cast<std::int64_t>(std::lround(std::sqrt(area * ratio)));
    const auto height = static_cast<std::int64_t>(std::lround(std::sqrt(area / ratio)));
    if (width < 1 || height < 1 || width > columns || height > rows) continue;
    return {offset(random, i + 2, rows - height), offset(random, i + 3, columns - width), height, width};
  }
  return {};
}

void check_ranges(const char* op, double min_area, double max_area, double min_ratio, double max_ratio) {
  check<ArgumentError>(0 < min_area && min_area <= max_area && max_area <= 1 && 0 < min_ratio &&
                           min_ratio <= max_ratio && std::isfinite(max_ratio),
                       "{}: wanted 0 < min <= max for area (at most 1) and ratio, got {}, {}, {} and {}", op, min_area,
                       max_area, min_ratio, max_ratio);
}

/// Warps an image. Relative to its center, pixel (y, x) is read from (yy y + yx x + dy, xy y + xx x + dx).
Tensor warp(const Tensor& image, double yy, double yx, double xy, double xx, double dy, double dx) {
  const std::int64_t rows = image.dim(0), columns = image.dim(1);
  CoordinateMap map = CoordinateMap::window(0, 0, rows, columns);
  const double cy = static_cast<double>(rows - 1) / 2, cx = static_cast<double>(columns - 1) / 2;
  for (std::size_t i = 0; i < map.y.size(); ++i) {
    const double y = map.y[i] - cy, x = map.x[i] - cx;
    map.y[i] = static_cast<float>(cy + yy * y + yx * x + dy);
    map.x[i] = static_cast<float>(cx + xy * y + xx * x + dx);
  }
  return sample({image, {}}, map).image;
}

/// Draws from Gamma(shape, 1), shape >= 1 (Marsaglia and Tsang, 2000). `index` replaces that of the stream.
double gamma_above_1(RandomStream random, double shape, std::uint32_t index) {
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  random.index = index;
  for (std::uint64_t i = 0;; ++i) {  // each try is accepted with a probability above 0.95
    const double x = random.normal(2 * i), v = std::pow(1 + c * x, 3);
    const double u = (static_cast<double>(random.word(4 * i + 2)) + 0.5) * 0x1p-32;
    if (v > 0 && std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

/// Draws from Beta(alpha, alpha). Gamma(a) = Gamma(a + 1) u^(1/a); logarithms avoid an underflow for small alpha.
double draw_beta(RandomStream random, double alpha) {
  const double u = (static_cast<double>(random.word(0)) + 0.5) * 0x1p-32;
  const double v = (static_cast<double>(random.word(1)) + 0.5) * 0x1p-32;
  const double a = std::log(gamma_above_1(random, alpha + 1, random.index + 1)) + std::log(u) / alpha;
  const double b = std::log(gamma_above_1(random, alpha + 1, random.index + 2)) + std::log(v) / alpha;
  return 1 / (1 + std::exp(b - a));
}

struct Mixing {
  MixedImages result{};
  const float* images = nullptr;
  std::int64_t rows = 0;
  double share = 1;  // weight of the image itself
  RandomStream random{};
};

/// Checks a batch, and draws the share.
Mixing begin_mixing(const char* op, const LabeledImage::Batch& batch, std::int64_t classes, double alpha,
                    std::uint64_t seed, const BatchOrigin& origin) {
  check<ShapeError>(batch.images.rank() == 4 && batch.images.dtype() == DType::f32 && batch.images.contiguous() &&
                        batch.labels.rank() == 1 && batch.labels.dim(0) == batch.images.dim(0),
                    "{}: wanted images (N, H, W, C) of f32 and labels (N), got {} and {}", op, batch.images.shape(),
                    batch.labels.shape());
  check<ArgumentError>(alpha > 0 && std::isfinite(alpha) && classes >= 1,
                       "{}: wanted alpha > 0 and at least one class, got {} and {}", op, alpha, classes);
  Mixing m;
  m.rows = batch.images.dim(0);
  m.random = {.seed = seed, .purpose = RngPurpose::kAugment, .step = origin.begin, .micro_batch = 1};
  m.share = draw_beta(m.random, alpha);
  m.images = batch.images.data<float>();
  m.result.images = batch.images.clone();
  return m;
}

Tensor mixed_targets(const char* op, const Tensor& labels, std::int64_t classes, double share) {
  const std::vector<std::int64_t> classes_of = labels.to_vector<std::int64_t>();
  const auto rows = std::ssize(classes_of);
  Tensor targets = Tensor::zeros({rows, classes});
  float* to = targets.mutable_data<float>();
  for (std::int64_t n = 0; n < rows; ++n) {
    const std::int64_t own = classes_of[static_cast<std::size_t>(n)];
    const std::int64_t other = classes_of[static_cast<std::size_t>((n + rows - 1) % rows)];
    check<DataError>(own >= 0 && own < classes, "{}: wanted labels from 0 to {}, got {} in row {}", op, classes - 1,
                     own, n);
    check<DataError>(other >= 0 && other < classes, "{}: wanted labels from 0 to {}, got {}", op, classes - 1, other);
    to[n * classes + own] += static_cast<float>(share);
    to[n * classes + other] += static_cast<float>(1 - share);
  }
  return targets;
}

}  // namespace

Tensor resize_image(const Tensor& image, std::int64_t height, std::int64_t width) {
  check_image("resize_image", image);
  check_size("resize_image", height, width);
  const std::int64_t rows = image.dim(0), columns = image.dim(1), channels = image.dim(2);
  if (rows == height && columns == width) return image;
  const Tensor host = image.on_host();
  const float* from = host.data<float>();
  Tensor across = Tensor::zeros({rows, width, channels}), result = Tensor::zeros({height, width, channels});
  const std::vector<Taps> x_taps = taps_of(columns, width), y_taps = taps_of(rows, height);
  float* middle = across.mutable_data<float>();
  for (std::int64_t y = 0; y < rows; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < channels; ++c) {
        const Taps& taps = x_taps[static_cast<std::size_t>(x)];
        double sum = 0;
        for (std::size_t k = 0; k < taps.weights.size(); ++k)
          sum += taps.weights[k] * from[(y * columns + taps.first + static_cast<std::int64_t>(k)) * channels + c];
        middle[(y * width + x) * channels + c] = static_cast<float>(sum);
      }
  float* to = result.mutable_data<float>();
  const std::int64_t row = width * channels;
  for (std::int64_t y = 0; y < height; ++y) {
    const Taps& taps = y_taps[static_cast<std::size_t>(y)];
    for (std::int64_t i = 0; i < row; ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < taps.weights.size(); ++k)
        sum += taps.weights[k] * middle[(taps.first + static_cast<std::int64_t>(k)) * row + i];
      to[y * row + i] = static_cast<float>(sum);
    }
  }
  return result;
}

Tensor resize_shorter_side(const Tensor& image, std::int64_t side) {
  check_image("resize_shorter_side", image);
  check_size("resize_shorter_side", side, side);
  const std::int64_t rows = image.dim(0), columns = image.dim(1);
  return rows < columns ? resize_image(image, side, side * columns / rows)
                        : resize_image(image, side * rows / columns, side);
}

Tensor center_crop(const Tensor& image, std::int64_t height, std::int64_t width) {
  check_image("center_crop", image);
  check_size("center_crop", height, width);
  check<ShapeError>(height <= image.dim(0) && width <= image.dim(1),
                    "center_crop: wanted an image of at least {} x {} pixels, got {}; resize it before", height, width,
                    image.shape());
  return window(image, (image.dim(0) - height) / 2, (image.dim(1) - width) / 2, height, width);
}

Tensor random_crop(const Tensor& image, std::int64_t height, std::int64_t width, std::int64_t padding,
                   const RandomStream& random) {
  check_image("random_crop", image);
  check_size("random_crop", height, width);
  check<ArgumentError>(padding >= 0, "random_crop: wanted a padding of at least 0, got {}", padding);
  const std::int64_t rows = image.dim(0) + 2 * padding, columns = image.dim(1) + 2 * padding, channels = image.dim(2);
  check<ShapeError>(height <= rows && width <= columns,
                    "random_crop: wanted an image of at least {} x {} pixels with its padding, got {} and {}", height,
                    width, image.shape(), padding);
  const std::int64_t y = offset(random, 0, rows - height) - padding, x = offset(random, 1, columns - width) - padding;
  Tensor result = Tensor::zeros({height, width, channels});
  const Tensor host = image.on_host();
  float* to = result.mutable_data<float>();
  const std::int64_t begin = std::max<std::int64_t>(0, -x), end = std::min(width, image.dim(1) - x);
  for (std::int64_t i = std::max<std::int64_t>(0, -y); i < std::min(height, image.dim(0) - y); ++i)
    if (begin < end)
      std::copy_n(host.data<float>() + ((y + i) * image.dim(1) + x + begin) * channels, (end - begin) * channels,
                  to + (i * width + begin) * channels);
  return result;
}

Tensor random_resized_crop(const Tensor& image, std::int64_t height, std::int64_t width, const RandomStream& random,
                           const ResizedCropOptions& o) {
  check_image("random_resized_crop", image);
  check_size("random_resized_crop", height, width);
  check_ranges("random_resized_crop", o.min_area, o.max_area, o.min_ratio, o.max_ratio);
  const std::int64_t rows = image.dim(0), columns = image.dim(1);
  Rectangle r = draw_rectangle(random, rows, columns, o.min_area, o.max_area, o.min_ratio, o.max_ratio);
  if (r.height == 0) {
    const double ratio = static_cast<double>(columns) / static_cast<double>(rows);
    r = {0, 0, rows, columns};
    if (ratio < o.min_ratio) r.height = std::min(rows, std::lround(static_cast<double>(columns) / o.min_ratio));
    if (ratio > o.max_ratio) r.width = std::min(columns, std::lround(static_cast<double>(rows) * o.max_ratio));
    r.height = std::max<std::int64_t>(1, r.height);
    r.width = std::max<std::int64_t>(1, r.width);
    r.y = (rows - r.height) / 2;
    r.x = (columns - r.width) / 2;
  }
  return resize_image(window(image, r.y, r.x, r.height, r.width), height, width);
}

Tensor random_flip_horizontal(const Tensor& image, const RandomStream& random, double probability) {
  check_image("random_flip_horizontal", image);
  return random.uniform(0) < probability ? flip_horizontal({image, {}}).image : image;
}
Tensor random_flip_vertical(const Tensor& image, const RandomStream& random, double probability) {
  check_image("random_flip_vertical", image);
  return random.uniform(0) < probability ? flip_vertical({image, {}}).image : image;
}

Tensor adjust_brightness(const Tensor& image, double factor) {
  check_image("adjust_brightness", image);
  check_factor("adjust_brightness", factor);
  const std::int64_t channels = image.dim(2);
  return each_pixel(image, [=](float* p) {
    for (std::int64_t c = 0; c < channels; ++c) p[c] *= static_cast<float>(factor);
  });
}

Tensor adjust_contrast(const Tensor& image, double factor) {
  check_image("adjust_contrast", image);
  check_factor("adjust_contrast", factor);
  const Tensor host = image.on_host();
  const std::int64_t channels = image.dim(2);
  double sum = 0;
  for (std::int64_t i = 0; i < host.numel(); i += channels) sum += grey_of(host.data<float>() + i, channels);
  const double mean = sum * static_cast<double>(channels) / static_cast<double>(host.numel());
  return each_pixel(image, [=](float* p) {
    for (std::int64_t c = 0; c < channels; ++c) p[c] = static_cast<float>(mean + factor * (p[c] - mean));
  });
}

Tensor adjust_saturation(const Tensor& image, double factor) {
  check_image("adjust_saturation", image);
  check_factor("adjust_saturation", factor);
  if (image.dim(2) != 3) return image;
  return each_pixel(image, [=](float* p) {
    const float grey = grey_of(p, 3);
    for (int c = 0; c < 3; ++c) p[c] = static_cast<float>(grey + factor * (p[c] - grey));
  });
}

Tensor adjust_hue(const Tensor& image, double turn) {
  check_image("adjust_hue", image);
  check<ArgumentError>(std::abs(turn) <= 0.5, "adjust_hue: wanted a turn from -0.5 to 0.5, got {}", turn);
  if (image.dim(2) != 3) return image;
  return each_pixel(image, [=](float* p) {
    const double high = std::max({p[0], p[1], p[2]}), low = std::min({p[0], p[1], p[2]}), range = high - low;
    if (range <= 0) return;
    double hue = p[0] == high   ? (p[1] - p[2]) / range
                 : p[1] == high ? 2 + (p[2] - p[0]) / range
                                : 4 + (p[0] - p[1]) / range;  // in sixths of the circle
    hue += 6 * turn;
    for (int c = 0; c < 3; ++c) {  // the distance of the hue to the color of the channel: 0, 2 or 4 sixths
      const double distance = std::abs(std::remainder(hue - 2 * c, 6));
      p[c] = static_cast<float>(low + range * std::clamp(2 - distance, 0.0, 1.0));
    }
  });
}

Tensor color_jitter(const Tensor& image, const RandomStream& random, const ColorJitterOptions& o) {
  check_image("color_jitter", image);
  check<ArgumentError>(o.brightness >= 0 && o.contrast >= 0 && o.saturation >= 0 && o.hue >= 0 && o.hue <= 0.5,
                       "color_jitter: wanted factors >= 0 and a hue of at most 0.5, got {}, {}, {} and {}",
                       o.brightness, o.contrast, o.saturation, o.hue);
  const auto factor = [&](std::uint64_t i, double x) { return between(random, i, std::max(0.0, 1 - x), 1 + x); };
  int order[] = {0, 1, 2, 3};
  for (std::uint64_t i = 3; i > 0; --i) std::swap(order[i], order[random.below(4 + i, i + 1)]);
  Tensor result = image;
  for (const int step : order) {
    if (step == 0 && o.brightness > 0) result = adjust_brightness(result, factor(0, o.brightness));
    if (step == 1 && o.contrast > 0) result = adjust_contrast(result, factor(1, o.contrast));
    if (step == 2 && o.saturation > 0) result = adjust_saturation(result, factor(2, o.saturation));
    if (step == 3 && o.hue > 0) result = adjust_hue(result, between(random, 3, -o.hue, o.hue));
  }
  return result;
}

Tensor random_erasing(const Tensor& image, const RandomStream& random, const ErasingOptions& o) {
  check_image("random_erasing", image);
  check_ranges("random_erasing", o.min_area, o.max_area, o.min_ratio, o.max_ratio);
  if (random.uniform(40) >= o.probability) return image;
  const Rectangle r = draw_rectangle(random, image.dim(0), image.dim(1), o.min_area, o.max_area, o.min_ratio,
                                     o.max_ratio);
  Tensor result = image.clone();
  const std::int64_t channels = image.dim(2);
  for (std::int64_t y = r.y; y < r.y + r.height; ++y)
    std::fill_n(result.mutable_data<float>() + (y * image.dim(1) + r.x) * channels, r.width * channels,
                static_cast<float>(o.value));
  return result;
}

Tensor image_normalize(const Tensor& image, const std::vector<double>& mean, const std::vector<double>& deviation) {
  check_image("image_normalize", image);
  const auto channels = static_cast<std::size_t>(image.dim(2));
  check<ArgumentError>(mean.size() == channels && deviation.size() == channels &&
                           std::ranges::all_of(deviation, [](double d) { return d > 0; }),
                       "image_normalize: wanted a mean and a deviation > 0 for each of {} channels, got {} and {}",
                       channels, mean.size(), deviation.size());
  Tensor result = image.clone();
  float* p = result.mutable_data<float>();
  for (std::int64_t i = 0; i < result.numel(); ++i) {
    const std::size_t c = static_cast<std::size_t>(i) % channels;
    p[i] = static_cast<float>((p[i] - mean[c]) / deviation[c]);
  }
  return result;
}

Tensor rand_augment(const Tensor& image, const RandomStream& random, int count, int magnitude) {
  check_image("rand_augment", image);
  check<ArgumentError>(count >= 0 && magnitude >= 0 && magnitude <= 30,
                       "rand_augment: wanted count >= 0 and a magnitude from 0 to 30, got {} and {}", count, magnitude);
  const double strength = magnitude / 30.0;
  Tensor result = image;
  for (int k = 0; k < count; ++k) {
    const auto word = static_cast<std::uint64_t>(2 * k);
    const double sign = random.uniform(word + 1) < 0.5f ? -1 : 1;
    const double shift = sign * strength * 0.45, shear = sign * strength * 0.3;
    const double angle = sign * strength * 30 * std::numbers::pi / 180;
    switch (random.below(word, 10)) {
      case 0: break;
      case 1: result = adjust_brightness(result, 1 + sign * 0.9 * strength); break;
      case 2: result = adjust_contrast(result, 1 + sign * 0.9 * strength); break;
      case 3: result = adjust_saturation(result, 1 + sign * 0.9 * strength); break;
      case 4: result = adjust_hue(result, sign * 0.5 * strength); break;
      case 5: result = warp(result, std::cos(angle), std::sin(angle), -std::sin(angle), std::cos(angle), 0, 0); break;
      case 6: result = warp(result, 1, shear, 0, 1, 0, 0); break;
      case 7: result = warp(result, 1, 0, shear, 1, 0, 0); break;
      case 8: result = warp(result, 1, 0, 0, 1, shift * static_cast<double>(image.dim(0)), 0); break;
      default: result = warp(result, 1, 0, 0, 1, 0, shift * static_cast<double>(image.dim(1))); break;
    }
  }
  return result;
}

MixedImages mixup(const LabeledImage::Batch& batch, std::int64_t classes, double alpha, std::uint64_t seed,
                  const BatchOrigin& origin) {
  Mixing m = begin_mixing("mixup", batch, classes, alpha, seed, origin);
  const std::int64_t size = batch.images.numel() / std::max<std::int64_t>(1, m.rows);
  float* to = m.result.images.mutable_data<float>();
  for (std::int64_t n = 0; n < m.rows; ++n) {
    const float* other = m.images + (n + m.rows - 1) % m.rows * size;
    for (std::int64_t i = 0; i < size; ++i)
      to[n * size + i] = static_cast<float>(m.share * m.images[n * size + i] + (1 - m.share) * other[i]);
  }
  m.result.targets = mixed_targets("mixup", batch.labels, classes, m.share);
  return m.result;
}

MixedImages cutmix(const LabeledImage::Batch& batch, std::int64_t classes, double alpha, std::uint64_t seed,
                   const BatchOrigin& origin) {
  Mixing m = begin_mixing("cutmix", batch, classes, alpha, seed, origin);
  const std::int64_t height = batch.images.dim(1), width = batch.images.dim(2), channels = batch.images.dim(3);
  const double half = std::sqrt(1 - m.share) / 2;
  const auto y = static_cast<double>(m.random.below(2, static_cast<std::uint64_t>(height)));
  const auto x = static_cast<double>(m.random.below(3, static_cast<std::uint64_t>(width)));
  const auto edge = [](double at, std::int64_t size) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor(at)), 0, size);
  };
  const auto high = static_cast<double>(height) * half, wide = static_cast<double>(width) * half;
  const std::int64_t top = edge(y - high, height), bottom = edge(y + high, height);
  const std::int64_t left = edge(x - wide, width), right = edge(x + wide, width);
  float* to = m.result.images.mutable_data<float>();
  const std::int64_t size = height * width * channels;
  for (std::int64_t n = 0; n < m.rows; ++n)
    for (std::int64_t row = top; row < bottom; ++row) {
      const std::int64_t at = (row * width + left) * channels;
      std::copy_n(m.images + (n + m.rows - 1) % m.rows * size + at, (right - left) * channels, to + n * size + at);
    }
  const double area = static_cast<double>((bottom - top) * (right - left)) / static_cast<double>(height * width);
  m.result.targets = mixed_targets("cutmix", batch.labels, classes, 1 - area);
  return m.result;
}

}  // namespace binade::io
