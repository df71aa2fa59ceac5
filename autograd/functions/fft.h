#pragma once

#include <cstdint>
#include <vector>

#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/variable.h"
#include "binade/core/ops/extent2.h"

/// Complex numbers, Fourier transforms and spectra of signals.
///
/// Binade has no complex dtype: a complex tensor is a real one whose last axis, of extent 2, has real and imaginary
/// parts, like torch.view_as_real. Axes of complex tensors do not count it: axis -1 of z (…, n, 2) is that of extent n.
/// Gradients are those by real and imaginary parts, as in PyTorch. Transforms compute and give f32 (f64 for f64)
/// whatever the precision policy; core/ops/fft.h says how.
namespace binade {

/// Returns the complex tensor (…, 2) of real and imaginary parts of one shape.
Variable complex(const Variable& real, const Variable& imaginary);
/// Returns magnitude (cos(angle) + i sin(angle)).
Variable polar(const Variable& magnitude, const Variable& angle);
/// Return the real or imaginary part of z (…, 2).
Variable real(const Variable& z);
Variable imag(const Variable& z);
/// Returns the complex conjugate.
Variable conj(const Variable& z);
/// Returns the product of complex numbers; the other axes broadcast.
Variable complex_mul(const Variable& a, const Variable& b);
/// Return magnitude and angle, in (-pi, pi]. At 0, where neither has a derivative, the gradient is 0 (as in PyTorch).
Variable complex_abs(const Variable& z);
Variable complex_angle(const Variable& z);

/// What divides a transform of n numbers: its inverse by n, both by sqrt(n), or the transform by n.
enum class FftNorm { kBackward, kOrtho, kForward };

/// Returns y_k = sum of x_j exp(-2 pi i j k / n) for complex x (…, 2) along `axis`, or the inverse, with exp(2 pi i j k
/// / n) and divided by n. n = 0: the extent of the axis. Otherwise x is continued with zeros, or cut, to n positions.
/// Throw ShapeError, DTypeError, and ArgumentError unless n is in [1, 2^30].
Variable fft(const Variable& x, std::int64_t n = 0, int axis = -1, FftNorm norm = FftNorm::kBackward);
Variable ifft(const Variable& x, std::int64_t n = 0, int axis = -1, FftNorm norm = FftNorm::kBackward);
/// Returns the first n / 2 + 1 numbers of fft() of real x; the others are their conjugates: (…, n) -> (…, n / 2 + 1,
/// 2).
Variable rfft(const Variable& x, std::int64_t n = 0, int axis = -1, FftNorm norm = FftNorm::kBackward);
/// The inverse of rfft(), to n real numbers; n = 0: 2 (extent - 1). The imaginary part of the first number, and of
/// number n / 2 for an even n, is ignored.
Variable irfft(const Variable& x, std::int64_t n = 0, int axis = -1, FftNorm norm = FftNorm::kBackward);
/// Returns the real transform of a signal whose first half is x (…, 2) and whose second half is its conjugate; n = 0: 2
/// (extent - 1). ihfft() is the inverse.
Variable hfft(const Variable& x, std::int64_t n = 0, int axis = -1, FftNorm norm = FftNorm::kBackward);
Variable ihfft(const Variable& x, std::int64_t n = 0, int axis = -1, FftNorm norm = FftNorm::kBackward);

/// Transforms along several axes: those given, or without `axes` the last sizes.size(), or all. sizes[i] is n of
/// axes[i]; none: 0 for all. rfftn() and irfftn() treat the last of the axes as rfft() and irfft() do, and the others
/// like fft().
Variable fftn(const Variable& x, const std::vector<std::int64_t>& sizes = {}, const std::vector<int>& axes = {},
              FftNorm norm = FftNorm::kBackward);
Variable ifftn(const Variable& x, const std::vector<std::int64_t>& sizes = {}, const std::vector<int>& axes = {},
               FftNorm norm = FftNorm::kBackward);
Variable rfftn(const Variable& x, const std::vector<std::int64_t>& sizes = {}, const std::vector<int>& axes = {},
               FftNorm norm = FftNorm::kBackward);
Variable irfftn(const Variable& x, const std::vector<std::int64_t>& sizes = {}, const std::vector<int>& axes = {},
                FftNorm norm = FftNorm::kBackward);
/// The same along the last two axes.
Variable fft2(const Variable& x, Extent2 size = 0, FftNorm norm = FftNorm::kBackward);
Variable ifft2(const Variable& x, Extent2 size = 0, FftNorm norm = FftNorm::kBackward);
Variable rfft2(const Variable& x, Extent2 size = 0, FftNorm norm = FftNorm::kBackward);
Variable irfft2(const Variable& x, Extent2 size = 0, FftNorm norm = FftNorm::kBackward);

/// Moves frequency 0 to the middle of the given axes of any tensor, and back. Here the axis of complex parts counts
/// like any other: count the axes of a complex tensor from the front. Throws ArgumentError without axes, because all
/// axes of a complex tensor would include that of its parts.
Variable fftshift(const Variable& x, const std::vector<int>& axes);
Variable ifftshift(const Variable& x, const std::vector<int>& axes);

/// Options of stft() and istft(), with PyTorch's defaults.
struct StftOptions {
  std::int64_t n_fft = 0;       ///< length of the transforms; required
  std::int64_t hop_length = 0;  ///< samples between frames; 0: n_fft / 4
  std::int64_t win_length = 0;  ///< length of the window, which is centered in the frame; 0: n_fft
  bool center = true;  ///< frame t is centered at sample t hop_length of a signal padded by n_fft / 2 on both sides
  PadMode pad_mode = PadMode::kReflect;  ///< of that padding
  bool normalized = false;               ///< divides by sqrt(n_fft)
  bool onesided = true;                  ///< n_fft / 2 + 1 frequencies instead of n_fft
};
/// Short-time Fourier transform: real x (samples) or (B, samples) -> (frequencies, frames, 2) or (B, frequencies,
/// frames, 2), the transforms of frames that are multiplied by `window` (win_length); without one, by 1. Throws
/// ShapeError, DTypeError, and ArgumentError for options that do not fit.
Variable stft(const Variable& x, const StftOptions& options, const Variable& window = {});
/// The inverse by overlapping frames: their transforms, multiplied by the window, are added and divided by the sum of
/// squared windows (Griffin, Lim, 1984). Without `onesided`, the second half of the frequencies is ignored. `length`:
/// samples of the result, 0: all that the frames cover. Throws ArgumentError if a sample of the result is covered by no
/// window; for this check, a GPU is waited for.
Variable istft(const Variable& z, const StftOptions& options, const Variable& window = {}, std::int64_t length = 0);

}  // namespace binade
