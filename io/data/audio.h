#pragma once

#include <cstdint>
#include <string>

#include "binade/core/random.h"
#include "binade/core/tensor.h"

namespace binade::io {

/// Sound: samples from -1 to 1 (a file of floats may exceed this range).
struct Audio {
  Tensor samples{};       ///< (frames, channels) f32
  std::int64_t rate = 0;  ///< frames per second
};

/// True if this build can read audio files, which needs libsndfile (docs/data.md).
bool can_read_audio();
/// Reads a WAV file (PCM of 8, 16, 24 or 32 bits, float), or another format that the installed libsndfile knows (FLAC,
/// Ogg). Throws DataError with the path for a file that is damaged, truncated or has no frame, and ArgumentError if
/// this build cannot read audio.
Audio read_audio(const std::string& path);
/// Decodes the bytes of an audio file; error texts begin with `name`.
Audio decode_audio(const std::string& bytes, const std::string& name);

/// Resamples the sound to ceil(frames * rate / audio.rate) frames. The low-pass filter is a sinc with a Hann window (6
/// zero crossings on each side); its cutoff is 0.99 times half of the lower rate. These are the defaults of torchaudio.
/// Throws ArgumentError for a rate outside of 1 … 10^7.
Audio resample(const Audio& audio, std::int64_t rate);

// Functions with a RandomStream take all random numbers from it: pass SampleContext::part(k).random(). They throw
// ShapeError unless the samples are (frames, channels) f32, and ArgumentError for settings out of range.

/// Multiplies by 10^(decibels / 20).
Tensor audio_gain(const Tensor& samples, double decibels);
/// Applies a gain drawn from [low, high) decibels.
Tensor random_gain(const Tensor& samples, const RandomStream& random, double low, double high);
/// Shifts the sound by up to `most` frames, forwards or backwards, and fills the gap with silence.
Tensor random_time_shift(const Tensor& samples, const RandomStream& random, std::int64_t most);
/// Adds white noise at a signal-to-noise ratio drawn from [low, high) decibels. Silence is returned unchanged.
Tensor random_noise(const Tensor& samples, const RandomStream& random, double low, double high);

/// Settings of spec_augment().
struct SpecAugmentOptions {
  int time_masks = 2, frequency_masks = 2;
  std::int64_t time_width = 40;  ///< the width of a mask is drawn from 0 … time_width
  std::int64_t frequency_width = 15;
  double value = 0;  ///< value of the masked elements
};
/// Masks random ranges of a spectrogram (frames, bands) f32 (Park et al., "SpecAugment", 2019, without time warping).
Tensor spec_augment(const Tensor& spectrogram, const RandomStream& random, const SpecAugmentOptions& options = {});

}  // namespace binade::io
