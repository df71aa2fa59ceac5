#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "binade/core/error.h"

namespace binade {

/// The kind of a device.
enum class DeviceType : std::uint8_t { kCpu, kCuda };

/// The device that a tensor is stored on.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;

  static Device cpu() { return {}; }
  static Device cuda(int index = 0) { return {DeviceType::kCuda, index}; }
  /// Returns the first usable GPU, or the CPU if there is none.
  static Device best();
  /// Parses "auto", "cpu", "cuda" or "cuda:1". Throws ArgumentError, or DeviceError if the requested GPU is missing.
  static Device parse(std::string_view text);

  std::string to_string() const;  ///< "cpu", "cuda:0"
  friend bool operator==(const Device&, const Device&) = default;
};

/// An ordered queue of work on a device. The CPU has one, which executes work at once.
struct Stream {
  Device device{};
  void* handle = nullptr;
};

}  // namespace binade

template <>
struct fmt::formatter<binade::Device> : binade::PlainFormatter {
  auto format(const binade::Device& device, fmt::format_context& ctx) const { return write(device.to_string(), ctx); }
};
