#include <fmt/core.h>

#include <algorithm>
#include <thread>

#include "binade/core/error.h"
#include "binade/io/checkpoint/file.h"
#include "tests/crash/experiments.h"

namespace binade::crash {

namespace {

constexpr std::size_t kBytes = std::size_t{256} << 10;

/// Returns a checkpoint of exactly 256 KiB with random content.
io::CheckpointImage make_image(std::uint64_t seed) {
  const auto encode = [&](std::int64_t floats, std::size_t padding) {
    Draws draws(seed);
    std::vector<float> values(static_cast<std::size_t>(floats));
    for (float& x : values) x = static_cast<float>(draws.below(1u << 24)) / (1 << 24);
    StateDict state;
    state.put("model/" + std::string(1 + padding, 'w'), Tensor::from(values, {floats}));
    return io::encode_checkpoint(state, std::string(64, 'a'));
  };
  constexpr auto kFloats = static_cast<std::int64_t>(kBytes / 4);
  const std::int64_t floats = kFloats - static_cast<std::int64_t>((encode(kFloats, 0).bytes().size() - kBytes) / 4) -
                              16;
  for (std::size_t padding = 0; padding < 256; ++padding)
    if (io::CheckpointImage image = encode(floats, padding); image.bytes().size() == kBytes) return image;
  throw Error("no checkpoint came to 256 KiB");
}

bool is_refused(std::span<const std::byte> image) {
  try {
    io::verify_checkpoint(image);
    return false;
  } catch (const Error&) {
    return true;
  }
}

/// Flips the bits first, first + stride, … one at a time. Returns those whose flip verify_checkpoint() does not detect.
std::vector<std::size_t> flips_that_pass(std::span<const std::byte> image, std::size_t first, std::size_t stride) {
  std::vector<std::byte> bytes(image.begin(), image.end());
  std::vector<std::size_t> passed;
  for (std::size_t bit = first; bit < 8 * bytes.size(); bit += stride) {
    const std::byte mask{static_cast<unsigned char>(1u << (bit % 8))};
    bytes[bit / 8] ^= mask;
    if (!is_refused(bytes)) passed.push_back(bit);
    bytes[bit / 8] ^= mask;
  }
  return passed;
}

}  // namespace

/// Flips every bit of a checkpoint, one at a time, and calls verify_checkpoint(). With SHA instructions, hashing 256
/// KiB takes 0.2 ms. A partial run flips some of the bits, which depend on the seed, and all bits of the user block
/// (which contains the hash of the rest). Both try all truncations.
void damage(const Assignment& assignment, Findings& findings) {
  const io::CheckpointImage image = make_image(assignment.seed);
  const std::size_t bits = 8 * image.bytes().size();
  const auto wanted = static_cast<std::size_t>(assignment.cases > 0 ? assignment.cases : 50'000);
  const std::size_t stride = assignment.full ? 1 : std::max<std::size_t>(1, bits / wanted);
  const std::size_t workers = std::min<std::size_t>(stride == 1 ? std::thread::hardware_concurrency() : 1, 8);
  std::vector<std::vector<std::size_t>> passed(workers + 1);
  std::vector<std::thread> threads;
  for (std::size_t w = 0; w < workers; ++w)
    threads.emplace_back([&, w] {
      passed[w] = flips_that_pass(image.bytes(), (assignment.seed + w * stride) % (stride * workers), stride * workers);
    });
  for (std::thread& thread : threads) thread.join();
  std::size_t flips = bits / stride;
  if (stride > 1) {
    std::vector<std::byte> bytes(image.bytes().begin(), image.bytes().end());
    for (std::size_t bit = 0; bit < 8 * io::kUserBlockBytes; ++bit) {
      bytes[bit / 8] ^= std::byte{static_cast<unsigned char>(1u << (bit % 8))};
      if (!is_refused(bytes)) passed[workers].push_back(bit);
      bytes[bit / 8] ^= std::byte{static_cast<unsigned char>(1u << (bit % 8))};
    }
    flips += 8 * io::kUserBlockBytes;
  }
  for (const std::vector<std::size_t>& some : passed)
    for (const std::size_t bit : some) findings.violation(fmt::format("bit {} was flipped and nobody saw it", bit));
  for (std::size_t length = 0; length < image.bytes().size(); ++length)
    if (!is_refused(image.bytes().first(length)))
      findings.violation(fmt::format("cut to {} bytes and nobody saw it", length));
  if (is_refused(image.bytes())) findings.violation("the whole checkpoint itself was refused");
  findings.count_at_least("bytes of the checkpoint", static_cast<std::int64_t>(image.bytes().size()), kBytes);
  findings.count_at_least("single flipped bits", static_cast<std::int64_t>(flips),
                          assignment.full ? 2'097'152 : static_cast<std::int64_t>(wanted));
  findings.count_at_least("truncations", static_cast<std::int64_t>(image.bytes().size()), 262'144);
}

}  // namespace binade::crash
