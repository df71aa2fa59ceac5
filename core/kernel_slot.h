#pragma once

#include <array>
#include <string_view>

#include "binade/core/device.h"
#include "binade/core/error.h"

namespace binade {

/// One set of kernels per device type. `core/` declares and fills the CPU entry; a CUDA module fills the other at run
/// time. `Kernels` is a struct of plain function pointers.
template <class Kernels>
class KernelSlot {
 public:
  void fill(DeviceType type, const Kernels& kernels) { entries_[index(type)] = {kernels, true}; }
  bool filled(DeviceType type) const { return entries_[index(type)].filled; }

  /// Throws DeviceError naming op and device when nobody filled the entry.
  const Kernels& on(Device device, std::string_view op) const {
    const Entry& entry = entries_[index(device.type)];
    check<DeviceError>(entry.filled, "{}: no kernel for {}; create a binade::Runtime first, or use another device", op,
                       device.to_string());
    return entry.kernels;
  }

 private:
  struct Entry {
    Kernels kernels{};
    bool filled = false;
  };
  static std::size_t index(DeviceType type) { return static_cast<std::size_t>(type); }
  std::array<Entry, 2> entries_;
};

/// Fills every CPU slot. Called by Runtime's constructor; a second call changes nothing.
void register_cpu_kernels();

}  // namespace binade
