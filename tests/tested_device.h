#pragma once

#include <cstdlib>

#include "binade/core/device.h"

namespace binade {

/// The device that a suite runs on: the CPU, or what the environment variable BINADE_TEST_DEVICE names ("cuda").
inline Device tested_device() {
  static const Device device = [] {
    const char* name = std::getenv("BINADE_TEST_DEVICE");
    return name != nullptr ? Device::parse(name) : Device::cpu();
  }();
  return device;
}

}  // namespace binade
