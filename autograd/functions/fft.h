#pragma once

#include <cstdint>
#include <vector>

#include "binade/autograd/functions/rearrange.h"
#include "binade/autograd/variable.h"
#include "binade/core/ops/extent2.h"

/// Complex numbers, Fourier transforms and spectra of signals.
///
/// Binade has no complex dtype: a complex tensor is a real tensor whose last axis, of extent 2, holds the real and the
/// imaginary part, like torch.view_as_real. Axis numbers do not count this axis: axis -1 of z (…, n, 2) has extent n.
/// Gradients are those with respect to real and imaginary parts, as in PyTorch. Transforms compute and return f32 (f64
/// for f64) under every precision policy; core/ops/fft.h describes how.
namespace binade {

/// Returns the complex tensor (…, 2) with the given real and imaginary parts, which must have one shape.
Variable complex(const Variable& real, const Variable& imaginary);
/// Returns magnitude (cos(angle) + i sin(angle)).
Variable polar(const Variable& magnitude, const Variable& angle);
/// Return the real or imaginary part of z (…, 2).
Variable real(const Variable& z);
Variable imag(const Variable& z);
/// Returns the complex conjugate.
Variable conj(const Variable& z);
/// Returns the elementwise product of two complex tensors, which broadcast.
Variable complex_mul(const Variable& a, const Variable& b);
/// Return the magnitude, and the angle in (-pi, pi]. At 0, where neither has a derivative, the gradient is 0 (as in
/// PyTorch).
Variable complex_abs(const Variable& z);
Variable complex_angle(const Variable& z);

/// Normalization of a transform of length n: kBackward divides the inverse by n, kForward the transform by n, kOrtho
/// both by sqrt(n).
enum class FftNorm { kBackward, kOrtho, kForward };

/// fft() returns y_k = sum over j of x_j exp(-2 pi i j k / n) for complex x (…, 2) along `axis`. ifft() is the inverse:
/// it has exp(2 pi i j k / n) and divides by n. x is padded with zeros or truncated to n positions; n = 0 stands for
/// the extent of the axis. Both throw ShapeError, DTypeError, and ArgumentError unless n is in [0, 2^30].
Variable fft(const Variable& x, std::int64_t n = 0, int axis = -1, FftNorm norm = FftNorm::kBackward);
Variable ifft(const Variable& x, std::int64_t n = 0, int axis = -1, FftNorm norm = FftNorm::kBackward);
/// Returns the first n / 2 + 1 numbers of fft() of real x; the others are their conjugates: (…, n) -> (…, n / 2 + 1,
/// 2).
Variable rfft(const Variable& x, std::int64_t n = 0, int axis = -1, FftNorm norm = FftNorm::kBackward);
/// The inverse of rfft(): returns n real numbers; n = 0 stands for 2 (extent - 1). The imaginary part of the first
/// number, and of number n / 2 for an even n, is ignored.
Variable irfft(const Variable& x, std::int64_t n = 0, int axis = -1, FftNorm norm = FftNorm::kBackward);
/// Returns the transform, which is real, of a signal of length n whose first half is x (…, 2) and whose second half is
/// the reversed conjugate of x; n = 0 stands for 2 (extent - 1). ihfft() is the inverse.
Variable hfft(const Variable& x, std::int64_t n = 0, int axis = -1, FftNorm norm = FftNorm::kBackward);
Variable ihfft(const Variable& x, std::int64_t n = 0, int axis = -1, FftNorm norm = FftNorm::kBackward);

/// Transforms along several axes: along `axes`; if these are empty, along the last sizes.size() axes; if both are
/// empty, along all. sizes[i] is the n of axes[i]; empty sizes stand for 0. rfftn() and irfftn() treat the last of the
/// axes like rfft() and irfft(), and the others like fft() and ifft().
Variable fftn(const Variable& x, const std::vector<std::int64_t>& sizes = {}, const std::vector<int>& axes = {},
              FftNorm norm = FftNorm::kBackward);
Variable ifftn(const Variable& x, const std::vector<std::int64_t>& sizes = {}, const std::vector<int>& axes = {},
               FftNorm norm = FftNorm::kBackward);
Variable rfftn(const Variable& x, const std::vector<std::int64_t>& sizes = {}, const std::vector<int>& axes = {},
               FftNorm norm = FftNorm::kBackward);
Variable irfftn(const Variable& x, const std::vector<std::int64_t>& sizes = {}, const std::vector<int>& axes = {},
                FftNorm norm = FftNorm::kBackward);
/// The same transforms along the last two axes.
Variable fft2(const Variable& x, Extent2 size = 0, FftNorm norm = FftNorm::kBackward);
Variable ifft2(const Variable& x, Extent2 size = 0, FftNorm norm = FftNorm::kBackward);
Variable rfft2(const Variable& x, Extent2 size = 0, FftNorm norm = FftNorm::kBackward);
Variable irfft2(const Variable& x, Extent2 size = 0, FftNorm norm = FftNorm::kBackward);

/// fftshift() moves frequency 0 to the middle of the given axes; ifftshift() moves it back. Unlike above, the axis of
/// real and imaginary parts counts here, so number the axes of a complex tensor from the front. Throws ArgumentError
/// without axes, because all axes of a complex tensor would include that of its parts.
Variable fftshift(const Variable& x, const std::vector<int>& axes);
Variable ifftshift(const Variable& x, const std::vector<int>& axes);

/// Options of stft() and istft(), with PyTorch's defaults.
struct StftOptions {
  std::int64_t n_fft = 0;       ///< length of the transforms; required
  std::int64_t hop_length = 0;  ///< samples between frames; 0: n_fft / 4
  std::int64_t win_length = 0;  ///< length of the window, which is centered in the frame; 0: n_fft
  bool center = true;  ///< frame t is centered at sample t hop_length of a signal padded by n_fft / 2 on both sides
  PadMode pad_mode = PadMode::kReflect;  ///< values of that padding
  bool normalized = false;               ///< divides by sqrt(n_fft)
  bool onesided = true;                  ///< n_fft / 2 + 1 frequencies instead of n_fft
};
/// Short-time Fourier transform: real x (samples) or (B, samples) -> (frequencies, frames, 2) or (B, frequencies,
/// frames, 2), the transforms of frames that are multiplied by `window` (win_length); without one, by 1. Throws
/// ShapeError, DTypeError, and ArgumentError for options that do not fit.
Variable stft(const Variable& x, const StftOptions& options, const Variable& window = {});
/// The inverse of stft(): the inverse transforms of the overlapping frames are multiplied by the window, added, and
/// divided by the sum of the squared windows (Griffin, Lim, 1984). Without `onesided`, the second half of the
/// frequencies is ignored. `length`: number of samples of the result; 0: all that the frames cover. Throws
/// ArgumentError if no window covers a sample of the result; this check waits for a GPU.
Variable istft(const Variable& z, const StftOptions& options, const Variable& window = {}, std::int64_t length = 0);

}  // namespace binade
