#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "binade/core/error.h"

namespace binade {

enum class DeviceType : std::uint8_t { kCpu, kCuda };

/// Where a tensor lives. A plain value.
struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;

  static Device cpu() { return {}; }
  static Device cuda(int index = 0) { return {DeviceType::kCuda, index}; }
  /// The first usable GPU, else the CPU.
  static Device best();
  /// "auto", "cpu", "cuda", "cuda:1". Throws ArgumentError, or DeviceError when a GPU is asked for and not there.
  static Device parse(std::string_view text);

  std::string to_string() const;  ///< "cpu", "cuda:0"
  friend bool operator==(const Device&, const Device&) = default;
};

/// An ordered queue of work on a device. On the CPU there is one and it runs at once.
struct Stream {
  Device device{};
  void* handle = nullptr;
};

}  // namespace binade

template <>
struct fmt::formatter<binade::Device> : binade::PlainFormatter {
  auto format(const binade::Device& device, fmt::format_context& ctx) const { return write(device.to_string(), ctx); }
};
