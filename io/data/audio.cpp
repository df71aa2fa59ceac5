#include "binade/io/data/audio.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <numeric>
#include <vector>

#include "binade/core/error.h"
#include "binade/io/files/read_file.h"
#include "io/optional_formats.h"

#if BINADE_SNDFILE
#include <sndfile.h>
#endif

namespace binade::io {
namespace {

const float* check_samples(const char* op, const Tensor& samples) {
  check<ShapeError>(samples.defined() && samples.rank() == 2 && samples.dtype() == DType::f32 && samples.contiguous(),
                    "{}: wanted samples (frames, channels) of f32, got {}", op,
                    samples.defined() ? fmt::format("{} {}", name_of(samples.dtype()), samples.shape()) : "none");
  return samples.numel() > 0 ? samples.data<float>() : nullptr;
}

void check_range(const char* op, double low, double high) {
  check<ArgumentError>(std::isfinite(low) && std::isfinite(high) && low <= high,
                       "{}: wanted finite decibels, the lower first, got {} and {}", op, low, high);
}

}  // namespace

bool can_read_audio() { return BINADE_SNDFILE != 0; }

#if BINADE_SNDFILE
namespace {

/// A file in memory, as libsndfile reads it.
struct Bytes {
  const std::string& bytes;
  sf_count_t at = 0;

  static Bytes& of(void* user) { return *static_cast<Bytes*>(user); }
  static sf_count_t size(void* user) { return static_cast<sf_count_t>(of(user).bytes.size()); }
  static sf_count_t seek(sf_count_t to, int whence, void* user) {
    Bytes& self = of(user);
    const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? self.at : size(user);
    if (base + to < 0 || base + to > size(user)) return -1;
    return self.at = base + to;
  }
  static sf_count_t read(void* to, sf_count_t count, void* user) {
    Bytes& self = of(user);
    const sf_count_t n = std::clamp<sf_count_t>(size(user) - self.at, 0, count);
    std::memcpy(to, self.bytes.data() + self.at, static_cast<std::size_t>(n));
    self.at += n;
    return n;
  }
  static sf_count_t write(const void*, sf_count_t, void*) { return 0; }
  static sf_count_t tell(void* user) { return of(user).at; }
};

/// Throws DataError if a WAV file ends before its data, which libsndfile would shorten silently.
void check_wav_is_whole(const std::string& bytes, const std::string& name) {
  if (!bytes.starts_with("RIFF") || bytes.size() < 12) return;
  for (std::size_t at = 12; at + 8 <= bytes.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, bytes.data() + at + 4, 4);
    const bool is_data = bytes.compare(at, 4, "data") == 0;
    // A program that does not know the length writes 0 or 2^32 - 1: the data extend to the end of the file.
    if (is_data && (length == 0 || length == 0xFFFFFFFFu)) return;
    check<DataError>(!is_data || length <= bytes.size() - at - 8, "{}: truncated: wanted {} bytes of samples, got {}",
                     name, length, bytes.size() - at - 8);
    if (is_data) return;
    at += 8 + std::size_t{length} + length % 2;
  }
}

}  // namespace

Audio decode_audio(const std::string& bytes, const std::string& name) {
  check_wav_is_whole(bytes, name);
  SF_VIRTUAL_IO access{&Bytes::size, &Bytes::seek, &Bytes::read, &Bytes::write, &Bytes::tell};
  Bytes source{bytes};
  SF_INFO info{};
  const std::unique_ptr<SNDFILE, decltype(&sf_close)> file(sf_open_virtual(&access, SFM_READ, &info, &source),
                                                           &sf_close);
  check<DataError>(file != nullptr, "{}: wanted an audio file, got one that cannot be read: {}", name,
                   sf_strerror(nullptr));
  check<DataError>(info.frames >= 1 && info.channels >= 1 && info.samplerate >= 1,
                   "{}: wanted at least one frame, got {} frames of {} channels at {} Hz", name, info.frames,
                   info.channels, info.samplerate);
  // A header may state any number of frames, so memory is allocated as frames are read.
  constexpr int kChunkSamples = 1 << 16;
  const sf_count_t chunk = std::max(1, kChunkSamples / info.channels);  // in frames
  std::vector<float> samples;
  for (;;) {
    const std::size_t before = samples.size();
    samples.resize(before + static_cast<std::size_t>(chunk * info.channels));
    const sf_count_t got = sf_readf_float(file.get(), samples.data() + before, chunk);
    samples.resize(before + static_cast<std::size_t>(std::max<sf_count_t>(got, 0) * info.channels));
    if (got <= 0) break;
  }
  const auto frames = static_cast<std::int64_t>(samples.size()) / info.channels;
  check<DataError>(sf_error(file.get()) == SF_ERR_NO_ERROR && frames == info.frames,
                   "{}: damaged: wanted {} frames, got {} ({})", name, info.frames, frames, sf_strerror(file.get()));
  return {Tensor::from(samples, {frames, info.channels}), info.samplerate};
}

#else

Audio decode_audio(const std::string&, const std::string& name) {
  throw ArgumentError(name + ": this build of Binade cannot read audio; install libsndfile1-dev and build again");
}

#endif

Audio read_audio(const std::string& path) { return decode_audio(read_file(path), path); }

Audio resample(const Audio& audio, std::int64_t rate) {
  constexpr std::int64_t kMost = 10'000'000;
  const float* from = check_samples("resample", audio.samples);
  check<ArgumentError>(rate >= 1 && rate <= kMost && audio.rate >= 1 && audio.rate <= kMost,
                       "resample: wanted rates from 1 to {}, got {} and {}", kMost, audio.rate, rate);
  if (rate == audio.rate) return audio;
  const std::int64_t common = std::gcd(rate, audio.rate), up = rate / common, down = audio.rate / common;
  const std::int64_t frames = audio.samples.dim(0), channels = audio.samples.dim(1);
  const std::int64_t count = (frames * up + down - 1) / down;
  constexpr double kZeros = 6;
  const double limit = 0.99 * static_cast<double>(std::min(up, down)) / static_cast<double>(down);  // relative cutoff
  const double reach = kZeros / limit;  // in frames of the source
  Tensor result = Tensor::zeros({count, channels});
  float* to = result.mutable_data<float>();
  std::vector<double> sums(static_cast<std::size_t>(channels));
  for (std::int64_t n = 0; n < count; ++n) {
    const double center = static_cast<double>(n * down) / static_cast<double>(up);
    const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::ceil(center - reach)));
    const auto last = std::min(frames - 1, static_cast<std::int64_t>(std::floor(center + reach)));
    std::ranges::fill(sums, 0);
    for (std::int64_t k = first; k <= last; ++k) {
      const double t = (static_cast<double>(k) - center) * limit, angle = std::numbers::pi * t;
      const double hann = std::cos(angle / kZeros / 2);
      const double weight = limit * hann * hann * (t == 0 ? 1 : std::sin(angle) / angle);
      for (std::int64_t c = 0; c < channels; ++c) sums[static_cast<std::size_t>(c)] += weight * from[k * channels + c];
    }
    for (std::int64_t c = 0; c < channels; ++c)
      to[n * channels + c] = static_cast<float>(sums[static_cast<std::size_t>(c)]);
  }
  return {result, rate};
}

Tensor audio_gain(const Tensor& samples, double decibels) {
  check_samples("audio_gain", samples);
  check_range("audio_gain", decibels, decibels);
  const double factor = std::pow(10, decibels / 20);
  Tensor result = samples.clone();
  for (float& x : std::span(result.mutable_data<float>(), static_cast<std::size_t>(result.numel())))
    x = static_cast<float>(factor * x);
  return result;
}

Tensor random_gain(const Tensor& samples, const RandomStream& random, double low, double high) {
  check_range("random_gain", low, high);
  return audio_gain(samples, low + (high - low) * random.uniform(0));
}

Tensor random_time_shift(const Tensor& samples, const RandomStream& random, std::int64_t most) {
  const float* from = check_samples("random_time_shift", samples);
  check<ArgumentError>(most >= 0 && most < (std::int64_t{1} << 30),
                       "random_time_shift: wanted 0 to 2^30 frames, got {}", most);
  const std::int64_t frames = samples.dim(0), channels = samples.dim(1);
  const std::int64_t by = static_cast<std::int64_t>(random.below(0, 2 * static_cast<std::uint64_t>(most) + 1)) - most;
  Tensor result = Tensor::zeros(samples.shape());
  const std::int64_t kept = frames - std::abs(by);
  if (kept > 0)
    std::copy_n(from + std::max<std::int64_t>(0, -by) * channels, kept * channels,
                result.mutable_data<float>() + std::max<std::int64_t>(0, by) * channels);
  return result;
}

Tensor random_noise(const Tensor& samples, const RandomStream& random, double low, double high) {
  const float* from = check_samples("random_noise", samples);
  check_range("random_noise", low, high);
  double power = 0;
  for (std::int64_t i = 0; i < samples.numel(); ++i) power += static_cast<double>(from[i]) * from[i];
  if (power == 0) return samples;
  power /= static_cast<double>(samples.numel());
  const double ratio = low + (high - low) * random.uniform(0);
  const double deviation = std::sqrt(power * std::pow(10, -ratio / 10));
  Tensor result = samples.clone();
  float* to = result.mutable_data<float>();
  for (std::int64_t i = 0; i < samples.numel(); ++i)  // normal(0) would share a word with the ratio
    to[i] = static_cast<float>(from[i] + deviation * random.normal(static_cast<std::uint64_t>(i) + 1));
  return result;
}

Tensor spec_augment(const Tensor& spectrogram, const RandomStream& random, const SpecAugmentOptions& o) {
  check_samples("spec_augment", spectrogram);
  check<ArgumentError>(o.time_masks >= 0 && o.frequency_masks >= 0 && o.time_width >= 0 && o.frequency_width >= 0 &&
                           std::max(o.time_width, o.frequency_width) < (std::int64_t{1} << 30),
                       "spec_augment: wanted numbers and widths of masks >= 0, got {}, {}, {} and {}", o.time_masks,
                       o.frequency_masks, o.time_width, o.frequency_width);
  Tensor result = spectrogram.clone();
  if (result.numel() == 0) return result;
  const std::int64_t frames = result.dim(0), bands = result.dim(1);
  float* to = result.mutable_data<float>();
  std::uint64_t word = 0;
  const auto draw = [&](std::int64_t width, std::int64_t size) {
    width = static_cast<std::int64_t>(random.below(word++, static_cast<std::uint64_t>(std::min(width, size)) + 1));
    const auto first = static_cast<std::int64_t>(random.below(word++, static_cast<std::uint64_t>(size - width) + 1));
    return std::pair(first, width);
  };
  const auto value = static_cast<float>(o.value);
  for (int i = 0; i < o.time_masks; ++i) {
    const auto [first, width] = draw(o.time_width, frames);
    std::fill_n(to + first * bands, width * bands, value);
  }
  for (int i = 0; i < o.frequency_masks; ++i) {
    const auto [first, width] = draw(o.frequency_width, bands);
    for (std::int64_t t = 0; t < frames; ++t) std::fill_n(to + t * bands + first, width, value);
  }
  return result;
}

}  // namespace binade::io
