#pragma once

#include <gtest/gtest.h>

#include <string_view>

#include "binade/core/kernels/dispatch.h"
#include "tests/conformance/case.h"

namespace binade::conformance {

/// Calls check(level) for every kernel level that is built and that this machine supports, the selected one last. Stops
/// at the first fatal failure.
template <class F>
void at_every_level(F&& check) {
  if (tested_device() != Device::cpu()) return check("the device");
  struct Chosen {
    std::string_view level = cpu::level().isa;
    ~Chosen() { cpu::select_isa(level); }
  } const chosen;
  for (const std::string_view level : cpu::isa_levels()) {
    if (level == chosen.level) continue;
    cpu::select_isa(level);
    check(level);
    if (testing::Test::HasFatalFailure()) return;
  }
  cpu::select_isa(chosen.level);
  check(chosen.level);
}

}  // namespace binade::conformance
