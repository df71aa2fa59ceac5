#include "binade/io/data/audio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "binade/core/error.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
std::string raw(T value, std::size_t bytes = sizeof(T)) {
  return std::string(reinterpret_cast<const char*>(&value), bytes);
}

/// A WAV file, written as its specification says. `format`: 1 PCM, 3 float.
std::string wav(int format, int bits, int channels, const std::string& data) {
  const auto block = static_cast<std::uint16_t>(channels * bits / 8);
  const std::string body = "WAVEfmt " + raw<std::uint32_t>(16) + raw(static_cast<std::uint16_t>(format)) +
                           raw(static_cast<std::uint16_t>(channels)) + raw<std::uint32_t>(8000) +
                           raw<std::uint32_t>(8000u * block) + raw(block) + raw(static_cast<std::uint16_t>(bits)) +
                           "data" + raw(static_cast<std::uint32_t>(data.size())) + data;
  return "RIFF" + raw(static_cast<std::uint32_t>(body.size())) + body;
}

class AudioFile : public ::testing::Test {
  void SetUp() override {
    if (!can_read_audio()) GTEST_SKIP() << "built without libsndfile";
  }
};

TEST_F(AudioFile, ReadsPcmAndFloat) {
  const auto values = [](const std::string& bytes) { return decode_audio(bytes, "a.wav").samples.to_vector<double>(); };
  // Integers are divided by 2^(bits - 1); 8 bits are unsigned with 128 as zero.
  EXPECT_THAT(values(wav(1, 8, 1, raw<std::uint8_t>(0) + raw<std::uint8_t>(128) + raw<std::uint8_t>(192))),
              ElementsAre(-1, 0, 0.5));
  EXPECT_THAT(values(wav(1, 16, 1, raw<std::int16_t>(-32768) + raw<std::int16_t>(8192))), ElementsAre(-1, 0.25));
  EXPECT_THAT(values(wav(1, 24, 1, raw<std::int32_t>(-4194304, 3) + raw<std::int32_t>(1048576, 3))),
              ElementsAre(-0.5, 0.125));
  EXPECT_THAT(values(wav(1, 32, 1, raw<std::int32_t>(1 << 30) + raw<std::int32_t>(-(1 << 29)))),
              ElementsAre(0.5, -0.25));
  EXPECT_THAT(values(wav(3, 32, 1, raw(1.5f) + raw(-0.1f))), ElementsAre(1.5, -0.1f));
  const Audio stereo = decode_audio(wav(1, 16, 2, raw<std::int16_t>(16384) + raw<std::int16_t>(0)), "a.wav");
  EXPECT_EQ(stereo.samples.shape(), (Shape{1, 2}));
  EXPECT_EQ(stereo.rate, 8000);
}

TEST_F(AudioFile, NamesDamagedFiles) {
  const std::string whole = wav(1, 16, 1, std::string(200, '\1'));
  for (const std::size_t length : {std::size_t{0}, std::size_t{3}, std::size_t{20}, std::size_t{44}, whole.size() - 1})
    EXPECT_THAT(error_of<DataError>([&] { decode_audio(whole.substr(0, length), "x/a.wav"); }), HasSubstr("x/a.wav"))
        << length;
  std::string endless = whole;  // the header claims 2 GB of samples
  endless.replace(40, 4, raw<std::uint32_t>(0x7FFFFFF0));
  EXPECT_THROW(decode_audio(endless, "a.wav"), DataError);
  // With any byte of the header changed: no crash, and memory in proportion to the size of the file.
  for (std::size_t at = 0; at < 44; ++at)
    for (const char value : {'\0', '\1', '\x7F', '\xFF'}) {
      std::string changed = whole;
      changed[at] = value;
      try {
        EXPECT_LE(decode_audio(changed, "a.wav").samples.numel(), 200 * 8);
      } catch (const DataError&) {
      }
    }
  EXPECT_THROW(read_audio("no/such.wav"), DataError);
}

// 1024 channels are the most that libsndfile reads. A buffer of 2^16 frames of them would take 256 MiB.
TEST_F(AudioFile, ManyChannelsNeedNoMoreMemoryThanTheyFill) {
  const auto peak_mib = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss / 1024;
  };
  const std::string bytes = wav(1, 16, 1024, std::string(2048, '\1'));
  const auto before = peak_mib();
  EXPECT_EQ(decode_audio(bytes, "a.wav").samples.shape(), (Shape{1, 1024}));
  EXPECT_LT(peak_mib() - before, 32);
}

Audio sine(std::int64_t rate, double hertz, std::int64_t frames) {
  Audio audio{Tensor::empty({frames, 1}), rate};
  for (std::int64_t i = 0; i < frames; ++i)
    audio.samples.mutable_data<float>()[i] = static_cast<float>(
        std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / static_cast<double>(rate)));
  return audio;
}

// The pass band of the filter (Hann window, 6 zero crossings) is flat to 1 %; the ends are not compared.
TEST(Audio, ResamplingKeepsASineAndRemovesWhatTheRateCannotHold) {
  for (const std::int64_t rate : {16000, 44100, 6000}) {
    const Audio got = resample(sine(8000, 440, 800), rate), wanted = sine(rate, 440, got.samples.dim(0));
    EXPECT_EQ(got.samples.dim(0), (800 * rate + 7999) / 8000);
    for (std::int64_t i = rate / 400; i < got.samples.dim(0) - rate / 400; ++i)
      ASSERT_NEAR(got.samples.at(i), wanted.samples.at(i), 0.01) << rate << ", frame " << i;
  }
  const Audio gone = resample(sine(8000, 3500, 800), 4000);
  for (std::int64_t i = 20; i < 380; ++i) EXPECT_NEAR(gone.samples.at(i), 0, 0.01);
  EXPECT_THROW(resample(sine(8000, 1, 10), 0), ArgumentError);
}

TEST(Audio, RandomChangesAreFunctionsOfTheStream) {
  const Tensor x = sine(8000, 440, 100).samples;
  const RandomStream one{.seed = 1, .step = 5}, other{.seed = 1, .step = 6};
  const auto values = [](const Tensor& t) { return t.to_vector<float>(); };
  EXPECT_EQ(values(random_noise(x, one, 10, 20)), values(random_noise(x, one, 10, 20)));
  EXPECT_NE(values(random_noise(x, one, 10, 20)), values(random_noise(x, other, 10, 20)));
  EXPECT_NEAR(audio_gain(x, 20).at(3), 10 * x.at(3), 1e-5);
  const double ratio = random_gain(x, one, -6, 6).at(3) / x.at(3);
  EXPECT_TRUE(ratio >= 0.5 && ratio <= 2);
  EXPECT_THROW(random_gain(x, one, 6, -6), ArgumentError);
  EXPECT_THROW(random_noise(Tensor::zeros({4}), one, 0, 0), ShapeError);
}

// 4000 numbers: the measured ratio has a standard deviation of 10 log10(e) sqrt(2 / 4000) = 0.1 decibels; 5 are
// allowed.
TEST(Audio, NoiseHasTheWantedRatio) {
  const Tensor x = sine(8000, 440, 4000).samples, y = random_noise(x, {.seed = 3}, 10, 10);
  double signal = 0, noise = 0;
  for (std::int64_t i = 0; i < 4000; ++i) {
    signal += x.at(i) * x.at(i);
    noise += (y.at(i) - x.at(i)) * (y.at(i) - x.at(i));
  }
  EXPECT_NEAR(10 * std::log10(signal / noise), 10, 0.5);
}

TEST(Audio, ShiftsBothWaysWithSilence) {
  const Tensor x = Tensor::from({{1.f}, {2.f}, {3.f}});
  std::set<std::vector<float>> seen;
  for (std::uint64_t step = 0; step < 200; ++step)
    seen.insert(random_time_shift(x, {.seed = 1, .step = step}, 1).to_vector<float>());
  EXPECT_THAT(seen, ElementsAre(ElementsAre(0, 1, 2), ElementsAre(1, 2, 3), ElementsAre(2, 3, 0)));
  random_time_shift(x, {.seed = 1}, 100);
}

TEST(Audio, MasksOfASpectrogram) {
  const Tensor x = Tensor::full({30, 20}, 1);
  std::int64_t most = 0;
  for (std::uint64_t step = 0; step < 100; ++step) {
    const Tensor y = spec_augment(x, {.seed = 2, .step = step},
                                  {.time_masks = 1, .frequency_masks = 1, .time_width = 6, .frequency_width = 4});
    // Whole rows and whole columns are masked, and nothing else.
    std::int64_t rows = 0, columns = 0, masked = 0;
    for (std::int64_t i = 0; i < 600; ++i) masked += y.at(i) == 0;
    for (std::int64_t t = 0; t < 30; ++t) {
      bool all = true;
      for (std::int64_t b = 0; b < 20; ++b) all = all && y.at(t * 20 + b) == 0;
      rows += all;
    }
    for (std::int64_t b = 0; b < 20; ++b) {
      bool all = true;
      for (std::int64_t t = 0; t < 30; ++t) all = all && y.at(t * 20 + b) == 0;
      columns += all;
    }
    EXPECT_EQ(masked, rows * 20 + columns * 30 - rows * columns);
    EXPECT_LE(rows, 6);
    EXPECT_LE(columns, 4);
    most = std::max(most, masked);
  }
  EXPECT_EQ(most, 6 * 20 + 4 * 30 - 24);
}

}  // namespace
}  // namespace binade::io
