#include "examples/unet/cells.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "binade/core/error.h"
#include "binade/core/parallel.h"
#include "binade/core/random.h"

namespace binade::examples {
namespace {

/// A square field of one number per pixel.
struct Field {
  std::int64_t size;
  std::vector<float> values;

  explicit Field(std::int64_t n, float value = 0) : size(n), values(static_cast<std::size_t>(n * n), value) {}
  float& at(std::int64_t y, std::int64_t x) { return values[static_cast<std::size_t>(y * size + x)]; }
  float at(std::int64_t y, std::int64_t x) const { return values[static_cast<std::size_t>(y * size + x)]; }
};

/// The random numbers of one image, drawn in order.
class Draws {
 public:
  Draws(std::uint64_t seed, std::int64_t index)
      : stream_{.seed = seed, .purpose = RngPurpose::kData, .step = static_cast<std::uint64_t>(index)} {}
  double uniform(double low, double high) { return low + (high - low) * stream_.uniform(next_++); }
  double normal() {
    next_ += next_ % 2;
    const double value = stream_.normal(next_ / 2);
    next_ += 2;
    return value;
  }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

/// Blurs a field by a separable Gaussian; pixels beyond the border equal the border pixel.
void blur(Field& field, double sigma) {
  const auto radius = static_cast<std::int64_t>(std::ceil(3 * sigma));
  std::vector<float> weights;
  for (std::int64_t k = -radius; k <= radius; ++k)
    weights.push_back(static_cast<float>(std::exp(-0.5 * static_cast<double>(k * k) / (sigma * sigma))));
  const float sum = std::accumulate(weights.begin(), weights.end(), 0.0f);
  for (float& weight : weights) weight /= sum;
  const std::int64_t n = field.size;
  const auto inside = [n](std::int64_t i) { return std::clamp(i, std::int64_t{0}, n - 1); };
  Field across(n);
  std::vector<float> line(static_cast<std::size_t>(n + 2 * radius));
  for (std::int64_t y = 0; y < n; ++y) {
    for (std::int64_t i = 0; i < n + 2 * radius; ++i)
      line[static_cast<std::size_t>(i)] = field.at(y, inside(i - radius));
    for (std::int64_t k = 0; k <= 2 * radius; ++k)
      for (std::int64_t x = 0; x < n; ++x)
        across.at(y, x) += weights[static_cast<std::size_t>(k)] * line[static_cast<std::size_t>(x + k)];
  }
  field = Field(n);
  for (std::int64_t y = 0; y < n; ++y)
    for (std::int64_t k = -radius; k <= radius; ++k)
      for (std::int64_t x = 0; x < n; ++x)
        field.at(y, x) += weights[static_cast<std::size_t>(k + radius)] * across.at(inside(y + k), x);
}

/// Returns noise of unit standard deviation with structures of `scale` pixels.
Field texture(Draws& draws, std::int64_t size, double scale) {
  Field field(size);
  for (float& value : field.values) value = static_cast<float>(draws.normal());
  blur(field, scale);
  const auto gain = static_cast<float>(2 * std::sqrt(std::numbers::pi) *
                                       scale);  // restores the unit standard deviation after the blur
  for (float& value : field.values) value *= gain;
  return field;
}

/// A nucleus: an ellipse whose outline is deformed by three low harmonics.
struct Nucleus {
  double y, x, radius, stretch, angle, brightness;
  double bend[3], phase[3];

  /// Returns the distance of the point (py, px) from the center, divided by the distance of the outline in the same
  /// direction. It is less than 1 inside the nucleus.
  double reach(double py, double px) const {
    const double dy = py - y;
    const double dx = px - x;
    const double u = (std::cos(angle) * dx + std::sin(angle) * dy) / stretch;
    const double v = (-std::sin(angle) * dx + std::cos(angle) * dy) * stretch;
    const double direction = std::atan2(v, u);
    double outline = radius;
    for (int k = 0; k < 3; ++k) outline += radius * bend[k] * std::cos((k + 2) * direction + phase[k]);
    return std::sqrt(u * u + v * v) / outline;
  }
};

Nucleus draw_nucleus(Draws& draws, const std::vector<Nucleus>& others, double size, double typical_radius) {
  Nucleus n{};
  n.radius = typical_radius * draws.uniform(0.7, 1.35);
  n.stretch = draws.uniform(1.0, 1.25);
  n.angle = draws.uniform(0, std::numbers::pi);
  n.brightness = std::exp(0.45 * draws.normal());
  for (int k = 0; k < 3; ++k) {
    n.bend[k] = draws.uniform(0, 0.09 / (k + 1));
    n.phase[k] = draws.uniform(0, 2 * std::numbers::pi);
  }
  n.y = draws.uniform(-0.02, 1.02) * size;
  n.x = draws.uniform(-0.02, 1.02) * size;
  if (!others.empty() && draws.uniform(0, 1) < 0.4) {  // beside another nucleus, as after a cell division
    const auto& other = others[static_cast<std::size_t>(draws.uniform(0, 1) * static_cast<double>(others.size()))];
    const double direction = draws.uniform(0, 2 * std::numbers::pi);
    const double distance = (n.radius + other.radius) * draws.uniform(0.85, 1.1);
    n.y = other.y + distance * std::sin(direction);
    n.x = other.x + distance * std::cos(direction);
  }
  return n;
}

bool overlaps_too_much(const Nucleus& n, const std::vector<Nucleus>& others) {
  return std::any_of(others.begin(), others.end(), [&](const Nucleus& other) {
    return std::hypot(n.y - other.y, n.x - other.x) < 0.8 * (n.radius + other.radius);
  });
}

/// Adds one nucleus, with texture `fine` and dark nucleoli, to `light` (the brightness of each pixel) and to the mask.
void paint(const Nucleus& n, Draws& draws, const Field& fine, Field& light, std::vector<std::uint16_t>& mask) {
  double spot_y[3], spot_x[3], spot_radius[3];
  for (int k = 0; k < 3; ++k) {
    const double direction = draws.uniform(0, 2 * std::numbers::pi);
    const double distance = n.radius * draws.uniform(0, 0.55);
    spot_y[k] = n.y + distance * std::sin(direction);
    spot_x[k] = n.x + distance * std::cos(direction);
    spot_radius[k] = n.radius * draws.uniform(0.1, 0.22);
  }
  const double far = 1.7 * n.radius * n.stretch;
  const std::int64_t size = light.size;
  const auto low = [&](double c) { return std::max<std::int64_t>(0, static_cast<std::int64_t>(c - far)); };
  const auto high = [&](double c) { return std::min<std::int64_t>(size - 1, static_cast<std::int64_t>(c + far)); };
  for (std::int64_t y = low(n.y); y <= high(n.y); ++y) {
    for (std::int64_t x = low(n.x); x <= high(n.x); ++x) {
      const double reach = n.reach(static_cast<double>(y), static_cast<double>(x));
      if (!(reach < 1)) continue;
      mask[static_cast<std::size_t>(y * size + x)] = 255;
      // A nucleus is brighter in the middle, where it is thicker.
      double value = n.brightness * (0.55 + 0.45 * std::sqrt(1 - reach * reach)) * (1 + 0.16 * fine.at(y, x));
      for (int k = 0; k < 3; ++k) {
        const double away = std::hypot(static_cast<double>(y) - spot_y[k], static_cast<double>(x) - spot_x[k]) /
                            spot_radius[k];
        value *= 1 - 0.35 * std::exp(-away * away);
      }
      light.at(y, x) += static_cast<float>(std::max(0.0, value));
    }
  }
}

}  // namespace

CellImage draw_cells(std::uint64_t seed, std::int64_t index, std::int64_t size) {
  check<ArgumentError>(size >= 16, "cells: wanted images of at least 16 pixels a side, got {}", size);
  Draws draws(seed, index);
  const auto side = static_cast<double>(size);
  const double typical_radius = std::min(side / 4, draws.uniform(8, 14));
  const auto count = static_cast<std::int64_t>(draws.uniform(0.10, 0.30) * side * side /
                                               (std::numbers::pi * typical_radius * typical_radius)) +
                     1;

  const Field fine = texture(draws, size, 1.6);
  Field light(size);
  std::vector<std::uint16_t> mask(static_cast<std::size_t>(size * size));
  std::vector<Nucleus> nuclei;
  for (std::int64_t attempt = 0; attempt < 20 * count && static_cast<std::int64_t>(nuclei.size()) < count; ++attempt) {
    const Nucleus nucleus = draw_nucleus(draws, nuclei, side, typical_radius);
    if (overlaps_too_much(nucleus, nuclei)) continue;
    paint(nucleus, draws, fine, light, mask);
    nuclei.push_back(nucleus);
  }

  Field haze = light;  // light from above and below the focal plane
  blur(haze, 9);
  blur(light, draws.uniform(0.9, 1.7));
  const Field clouds = texture(draws, size, 24);
  const double slope = draws.uniform(0, 0.5);  // uneven illumination: one side is darker
  const double slope_angle = draws.uniform(0, 2 * std::numbers::pi);
  const double gain = draws.uniform(45, 110);
  const double background = draws.uniform(6, 22);
  const double photons = draws.uniform(1.2, 4);  // photons per grey level; fewer make the image grainier
  CellImage result{{size, size, 1, 8, {}}, {size, size, 1, 8, std::move(mask)}};
  for (std::int64_t y = 0; y < size; ++y) {
    for (std::int64_t x = 0; x < size; ++x) {
      const double across = (std::cos(slope_angle) * (static_cast<double>(x) / side - 0.5) +
                             std::sin(slope_angle) * (static_cast<double>(y) / side - 0.5));
      const double light_level = (1 + 2 * slope * across) * (gain * (light.at(y, x) + 0.25 * haze.at(y, x)) +
                                                             background * (1 + 0.2 * clouds.at(y, x)));
      const double level = std::max(0.0, light_level);
      const double noisy = level + std::sqrt(level / photons) * draws.normal() + 1.5 * draws.normal();
      result.image.values.push_back(static_cast<std::uint16_t>(std::clamp(std::lround(noisy), 0L, 255L)));
    }
  }
  return result;
}

io::ImageSet embedded_cells(const CellOptions& options, bool normalize) {
  check<ArgumentError>(options.count >= 1, "cells: wanted at least one image, got {}", options.count);
  io::ImageSet set;
  set.samples.resize(static_cast<std::size_t>(options.count));
  parallel_blocks(options.count, [&](std::int64_t i) {
    const CellImage drawn = draw_cells(options.seed, i, options.size);
    io::ImageSample& sample = set.samples[static_cast<std::size_t>(i)];
    sample.name = fmt::format("cell-{:03}", i);
    sample.pair = {io::to_tensor(drawn.image, 1, normalize), io::to_mask(drawn.mask, 1, sample.name)};
    sample.content = io::content_of(sample.pair);
  });
  return set;
}

}  // namespace binade::examples
