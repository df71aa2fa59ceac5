#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace binade::fuzz {

/// The random choices for one input: a function of (seed, index) alone, so that any input can be generated again.
/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t index) : state_(seed * 0x9E3779B97F4A7C15u ^ (index + 1)) {
    word();
    word();
  }

  std::uint64_t word() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, n); 0 for n = 0.
  std::size_t below(std::size_t n) {
    return n == 0 ? 0 : static_cast<std::size_t>((static_cast<unsigned __int128>(word()) * n) >> 64);
  }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }
  template <class T, std::size_t N>
  const T& pick(const T (&from)[N]) {
    return from[below(N)];
  }

  /// A number at which readers tend to fail, such as a power of two, or one of its neighbors.
  std::uint64_t edge() {
    constexpr std::uint64_t kEdges[] = {0,          1,          2,          7,          8,
                                        255,        256,        65535,      65536,      0x7fffffff,
                                        0x80000000, 0xffffffff, 1ull << 32, 1ull << 40, 1ull << 48,
                                        1ull << 59, 1ull << 62, ~0ull >> 1, 1ull << 63, ~0ull};
    return pick(kEdges) + below(3) - 1;
  }

 private:
  std::uint64_t state_;
};

/// Applies one to four edits to bytes: flipped bits, changed bytes, edge values as integers, cuts, repeats, moves.
std::string mutate(std::string bytes, Draws& draws);

/// As mutate(), for texts: replaces numbers, inserts tokens of `words`, opens brackets, escapes bytes.
std::string mutate_text(std::string text, Draws& draws, const std::vector<std::string>& words);

}  // namespace binade::fuzz
