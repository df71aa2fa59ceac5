#include "binade/autograd/functions/fft.h"

#include <algorithm>
#include <cmath>

#include "binade/autograd/apply.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/math.h"
#include "binade/core/ops/fft.h"
#include "binade/core/ops/move.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

void check_complex(const char* name, const Variable& z) {
  check<ShapeError>(z.value().rank() >= 1 && z.dim(-1) == 2,
                    "{}: wanted complex numbers (…, 2), real and imaginary parts in the last axis, got {}", where(name),
                    z.shape());
}

Variable part(const char* name, const Variable& z, std::int64_t i) {
  check_complex(name, z);
  return select(z, -1, i);
}

Variable conjugate(const char* name, const Variable& z) { return complex(part(name, z, 0), -part(name, z, 1)); }

double scale_of(FftNorm norm, bool inverse, std::int64_t n) {
  const auto count = static_cast<double>(n);
  switch (norm) {
    case FftNorm::kOrtho: return 1 / std::sqrt(count);
    case FftNorm::kForward: return inverse ? 1 : 1 / count;
    default: return inverse ? 1 / count : 1;
  }
}
/// The norm with the factors of transform and inverse exchanged.
FftNorm exchanged(FftNorm norm) {
  return norm == FftNorm::kBackward ? FftNorm::kForward : norm == FftNorm::kForward ? FftNorm::kBackward : norm;
}

/// Checks x and its axis, and returns the length of the transform.
std::int64_t length_of(const Variable& x, std::int64_t n, const ops::Fft::Params& p) {
  ops::Fft::Params checked = p;
  checked.n = 1;
  const int axis = ops::Fft::checked(x.shape(), x.dtype(), checked);
  if (n != 0) return n;
  const std::int64_t extent = x.dim(axis), length = p.kind == FftKind::kToReal ? 2 * (extent - 1) : extent;
  check<ShapeError>(length >= 1, "{}: wanted positions along axis {}, got {}", where(p.name), p.axis, x.shape());
  return length;
}

Variable transformed(const char* name, FftKind kind, bool inverse, const Variable& x, std::int64_t n, int axis,
                     FftNorm norm) {
  ops::Fft::Params p{
      .kind = kind, .inverse = inverse, .axis = axis, .interior = kind == FftKind::kToReal ? 2.0 : 1.0, .name = name};
  p.n = length_of(x, n, p);
  check<ArgumentError>(p.n >= 1 && p.n <= ops::kMaxExtent, "{}: wanted a transform of 1 to 2^30 numbers, got {}",
                       where(name), p.n);
  p.count = fft_outputs(kind, p.n);
  p.scale = scale_of(norm, inverse, p.n);
  return apply_one<ops::Fft>(p, {x});
}

/// The axes of a transform, counted from the front, and the length of each (0: the extent of the axis).
struct AxisSizes {
  std::vector<int> axes;
  std::vector<std::int64_t> sizes;

  AxisSizes(const char* name, int rank, const std::vector<std::int64_t>& given, const std::vector<int>& chosen) {
    check<ArgumentError>(chosen.empty() || given.empty() || given.size() == chosen.size(),
                         "{}: wanted a size for each axis, got {} sizes and {} axes", where(name), given.size(),
                         chosen.size());
    const int count = static_cast<int>(!chosen.empty() ? chosen.size() : given.empty() ? rank : given.size());
    check<ArgumentError>(count >= 1 && count <= rank, "{}: wanted 1 to {} axes, got {}", where(name), rank, count);
    for (int i = 0; i < count; ++i) {
      const int axis = chosen.empty() ? rank - count + i
                                      : ops::checked_axis(name, chosen[static_cast<std::size_t>(i)], rank);
      check<ArgumentError>(std::ranges::count(axes, axis) == 0, "{}: wanted different axes, got {} twice", where(name),
                           axis);
      axes.push_back(axis);
    }
    sizes = given.empty() ? std::vector<std::int64_t>(axes.size(), 0) : given;
  }
};

Variable transformed(const char* name, FftKind kind, bool inverse, const Variable& x,
                     const std::vector<std::int64_t>& sizes, const std::vector<int>& axes, FftNorm norm) {
  if (kind != FftKind::kFromReal) check_complex(name, x);
  const AxisSizes a(name, x.value().rank() - (kind == FftKind::kFromReal ? 0 : 1), sizes, axes);
  const std::size_t last = a.axes.size() - 1;
  Variable y = x;
  const auto along = [&](std::size_t i, FftKind how) {
    y = transformed(name, how, inverse, y, a.sizes[i], a.axes[i], norm);
  };
  if (kind != FftKind::kToReal) along(last, kind);
  for (std::size_t i = last; i-- > 0;) along(i, FftKind::kComplex);
  if (kind == FftKind::kToReal) along(last, kind);
  return y;
}

Variable transformed(const char* name, FftKind kind, bool inverse, const Variable& x, Extent2 size, FftNorm norm) {
  return transformed(name, kind, inverse, x, {size.y, size.x}, {-2, -1}, norm);
}

Variable shifted(const char* name, const Variable& x, const std::vector<int>& axes, bool back) {
  check<ArgumentError>(!axes.empty(), "{}: wanted one or more axes of {}, got none", where(name), x.shape());
  std::vector<std::int64_t> shifts;
  for (const int axis : axes) {
    const std::int64_t extent = x.dim(ops::checked_axis(name, axis, x.value().rank()));
    shifts.push_back(back ? (extent + 1) / 2 : extent / 2);
  }
  return roll(x, shifts, axes);
}

}  // namespace

Variable complex(const Variable& real, const Variable& imaginary) {
  check<ShapeError>(real.shape() == imaginary.shape(),
                    "{}: wanted real and imaginary parts of one shape, got {} and {}", where("complex"), real.shape(),
                    imaginary.shape());
  return stack({real, imaginary}, -1);
}
Variable polar(const Variable& magnitude, const Variable& angle) {
  return complex(magnitude * cos(angle), magnitude * sin(angle));
}
Variable real(const Variable& z) { return part("real", z, 0); }
Variable imag(const Variable& z) { return part("imag", z, 1); }
Variable conj(const Variable& z) { return conjugate("conj", z); }

Variable complex_mul(const Variable& a, const Variable& b) {
  const char* const name = "complex_mul";
  const Variable re = part(name, a, 0), im = part(name, a, 1), re2 = part(name, b, 0), im2 = part(name, b, 1);
  return complex(re * re2 - im * im2, re * im2 + im * re2);
}
Variable complex_abs(const Variable& z) { return hypot(part("complex_abs", z, 0), part("complex_abs", z, 1)); }
Variable complex_angle(const Variable& z) { return atan2(part("complex_angle", z, 1), part("complex_angle", z, 0)); }

Variable fft(const Variable& x, std::int64_t n, int axis, FftNorm norm) {
  return transformed("fft", FftKind::kComplex, false, x, n, axis, norm);
}
Variable ifft(const Variable& x, std::int64_t n, int axis, FftNorm norm) {
  return transformed("ifft", FftKind::kComplex, true, x, n, axis, norm);
}
Variable rfft(const Variable& x, std::int64_t n, int axis, FftNorm norm) {
  return transformed("rfft", FftKind::kFromReal, false, x, n, axis, norm);
}
Variable irfft(const Variable& x, std::int64_t n, int axis, FftNorm norm) {
  return transformed("irfft", FftKind::kToReal, true, x, n, axis, norm);
}
Variable hfft(const Variable& x, std::int64_t n, int axis, FftNorm norm) {
  return transformed("hfft", FftKind::kToReal, true, conjugate("hfft", x), n, axis, exchanged(norm));
}
Variable ihfft(const Variable& x, std::int64_t n, int axis, FftNorm norm) {
  return conj(transformed("ihfft", FftKind::kFromReal, false, x, n, axis, exchanged(norm)));
}

Variable fftn(const Variable& x, const std::vector<std::int64_t>& sizes, const std::vector<int>& axes, FftNorm norm) {
  return transformed("fftn", FftKind::kComplex, false, x, sizes, axes, norm);
}
Variable ifftn(const Variable& x, const std::vector<std::int64_t>& sizes, const std::vector<int>& axes, FftNorm norm) {
  return transformed("ifftn", FftKind::kComplex, true, x, sizes, axes, norm);
}
Variable rfftn(const Variable& x, const std::vector<std::int64_t>& sizes, const std::vector<int>& axes, FftNorm norm) {
  return transformed("rfftn", FftKind::kFromReal, false, x, sizes, axes, norm);
}
Variable irfftn(const Variable& x, const std::vector<std::int64_t>& sizes, const std::vector<int>& axes, FftNorm norm) {
  return transformed("irfftn", FftKind::kToReal, true, x, sizes, axes, norm);
}

Variable fft2(const Variable& x, Extent2 size, FftNorm norm) {
  return transformed("fft2", FftKind::kComplex, false, x, size, norm);
}
Variable ifft2(const Variable& x, Extent2 size, FftNorm norm) {
  return transformed("ifft2", FftKind::kComplex, true, x, size, norm);
}
Variable rfft2(const Variable& x, Extent2 size, FftNorm norm) {
  return transformed("rfft2", FftKind::kFromReal, false, x, size, norm);
}
Variable irfft2(const Variable& x, Extent2 size, FftNorm norm) {
  return transformed("irfft2", FftKind::kToReal, true, x, size, norm);
}

Variable fftshift(const Variable& x, const std::vector<int>& axes) { return shifted("fftshift", x, axes, false); }
Variable ifftshift(const Variable& x, const std::vector<int>& axes) { return shifted("ifftshift", x, axes, true); }

}  // namespace binade
