#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <string_view>

namespace binade::truth {

/// Random choices of a scenario; the same seed gives the same choices on every machine.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t word() { return engine_(); }
  /// Uniform in [0, 1).
  double unit() { return static_cast<double>(word() >> 11) * 0x1p-53; }
  double between(double low, double high) { return low + (high - low) * unit(); }
  /// Log-uniform in [low, high).
  double magnitude(double low, double high) { return std::exp(between(std::log(low), std::log(high))); }
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(unit() * static_cast<double>(n)); }
  bool chance(double p) { return unit() < p; }
  template <class List>
  const auto& one_of(const List& list) {
    return list[static_cast<std::size_t>(below(static_cast<std::int64_t>(std::size(list))))];
  }

 private:
  std::mt19937_64 engine_;
};

/// The seed of a separate stream of choices for each purpose.
constexpr std::uint64_t derived(std::uint64_t seed, std::string_view purpose) {
  std::uint64_t h = 0xcbf29ce484222325u ^ seed;
  for (const char c : purpose) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  h ^= h >> 29;
  return h * 0xbf58476d1ce4e5b9u;
}

}  // namespace binade::truth
