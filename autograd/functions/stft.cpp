#include <algorithm>

#include "binade/autograd/functions/elementwise.h"
#include "binade/autograd/functions/fft.h"
#include "binade/autograd/functions/shape.h"
#include "binade/core/step_context.h"

namespace binade {
namespace {

/// The options with their defaults resolved, and the window.
struct Frames {
  const char* name;
  std::int64_t size, hop;
  FftNorm norm;
  Variable window{};  // (size); undefined: 1

  Frames(const char* function, const StftOptions& o, const Variable& given, DType dtype, Device device)
      : name(function), size(o.n_fft), norm(o.normalized ? FftNorm::kOrtho : FftNorm::kBackward) {
    check<ArgumentError>(size >= 1 && size <= ops::kMaxExtent, "{}: wanted n_fft from 1 to 2^30, got {}", where(name),
                         size);
    hop = o.hop_length != 0 ? o.hop_length : std::max<std::int64_t>(1, size / 4);
    check<ArgumentError>(hop >= 1 && hop <= ops::kMaxExtent, "{}: wanted a hop_length from 1 to 2^30, got {}",
                         where(name), hop);
    const std::int64_t length = o.win_length != 0 ? o.win_length : size;
    check<ArgumentError>(length >= 1 && length <= size, "{}: wanted a win_length from 1 to n_fft = {}, got {}",
                         where(name), size, length);
    if (!given.defined() && length == size) return;
    window = given.defined() ? given : Variable(Tensor::full(Shape{length}, 1, dtype, device));
    check<ShapeError>(window.shape() == Shape{length}, "{}: wanted a window of win_length = {} values, got {}",
                      where(name), length, window.shape());
    check<DTypeError>(is_floating(window.dtype()), "{}: wanted a window of a floating dtype, got {}", where(name),
                      name_of(window.dtype()));
    const std::int64_t before = (size - length) / 2;
    if (length < size) window = pad(window, {before, size - length - before});
  }

  Variable windowed(const Variable& frames) const { return window.defined() ? frames * window : frames; }
  /// Adds up overlapping frames (B, T, size) to signals (B, samples).
  Variable overlapped(const Variable& frames, std::int64_t samples) const {
    return reshape(fold2d(frames, {1, samples}, {.kernel = {1, size}, .stride = {1, hop}}), {frames.dim(0), samples});
  }
};

/// Returns x in the dtype of transforms, f32 or f64.
Variable wide(const char* name, const Variable& x) {
  check<DTypeError>(is_floating(x.dtype()), "{}: wanted a floating dtype, got {}", where(name), name_of(x.dtype()));
  return cast(x, accumulate_dtype(x.dtype()));
}

}  // namespace

Variable stft(const Variable& x, const StftOptions& o, const Variable& window) {
  constexpr const char* kName = "stft";
  const int rank = x.value().rank();
  check<ShapeError>(rank == 1 || rank == 2, "{}: wanted signals (samples) or (B, samples), got {}", where(kName),
                    x.shape());
  Variable y = wide(kName, rank == 1 ? unsqueeze(x, 0) : x);
  const Frames f(kName, o, window, y.dtype(), y.device());
  const std::int64_t half = f.size / 2, samples = y.dim(1);
  const std::int64_t least = o.pad_mode == PadMode::kReflect ? half + 1 : o.pad_mode == PadMode::kConstant ? 0 : 1;
  check<ShapeError>(!o.center || samples >= least, "{}: wanted signals of at least {} samples to pad, got {}",
                    where(kName), least, x.shape());
  if (o.center) y = pad(y, {half, half}, o.pad_mode);
  check<ShapeError>(y.dim(1) >= f.size, "{}: wanted signals of at least n_fft = {} samples, got {}", where(kName),
                    f.size, x.shape());
  y = f.windowed(unfold(y, 1, f.size, f.hop));  // (B, frames, n_fft)
  y = o.onesided ? rfft(y, 0, -1, f.norm)
                 : fft(complex(y, Tensor::zeros(y.shape(), y.dtype(), y.device())), 0, -1, f.norm);
  y = permute(y, {0, 2, 1, 3});
  return rank == 1 ? squeeze(y, 0) : y;
}

Variable istft(const Variable& z, const StftOptions& o, const Variable& window, std::int64_t length) {
  constexpr const char* kName = "istft";
  const int rank = z.value().rank();
  check<ShapeError>((rank == 3 || rank == 4) && z.dim(-1) == 2,
                    "{}: wanted spectra (frequencies, frames, 2) or (B, frequencies, frames, 2), got {}", where(kName),
                    z.shape());
  const Variable spectra = wide(kName, rank == 3 ? unsqueeze(z, 0) : z);
  const Frames f(kName, o, window, spectra.dtype(), spectra.device());
  const std::int64_t frequencies = o.onesided ? f.size / 2 + 1 : f.size, count = spectra.dim(2);
  check<ShapeError>(spectra.dim(1) == frequencies && count >= 1, "{}: wanted {} frequencies and frames, got {}",
                    where(kName), frequencies, z.shape());
  check<ArgumentError>(length >= 0 && length <= ops::kMaxExtent && count <= ops::kMaxExtent,
                       "{}: wanted a length from 0 to 2^30 and at most 2^30 frames, got {} and {}", where(kName),
                       length, count);
  // In the spectrum of a real signal, the second half of the frequencies is the conjugate of the first.
  const Variable lines = narrow(permute(spectra, {0, 2, 1, 3}), 2, 0, f.size / 2 + 1);
  const Variable frames = irfft(lines, f.size, -1, f.norm);
  const std::int64_t samples = f.size + f.hop * (count - 1), begin = o.center ? f.size / 2 : 0;
  const std::int64_t all = samples - begin - (o.center ? f.size / 2 : 0);
  const std::int64_t wanted = length > 0 ? length : all, kept = std::min(wanted, samples - begin);
  check<ShapeError>(kept > 0, "{}: {} frames of {} samples leave no sample of the signal", where(kName), count, f.size);
  Variable y = narrow(f.overlapped(f.windowed(frames), samples), 1, begin, kept);
  const Variable one = Tensor::full(Shape{1, count, f.size}, 1, y.dtype(), y.device());
  const Variable cover = narrow(f.overlapped(f.window.defined() ? one * square(f.window) : one, samples), 1, begin,
                                kept);
  const Tensor least = cover.value().to(DType::f64).on_host();
  for (std::int64_t i = 0; i < kept; ++i)
    check<ArgumentError>(least.at(i) > 1e-11,
                         "{}: windows of hop_length {} leave sample {} uncovered; use a smaller hop or another window",
                         where(kName), f.hop, i);
  y = y / cover;
  if (kept < wanted) y = pad(y, {0, wanted - kept});
  return rank == 3 ? squeeze(y, 0) : y;
}

}  // namespace binade
