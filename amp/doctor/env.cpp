#include <cstdio>

#include "amp/doctor/commands.h"
#include "core/backend.h"
#include "core/gpus.h"
#include "core/kernels/dispatch.h"
#include "core/parallel.h"
#include "core/runtime.h"
#include "core/version.h"
#include "io/library_versions.h"

namespace binade::doctor {

int env() {
  const Device device = Device::best();
  const Runtime runtime({.device = device});
  std::printf("build     %s\n", std::string(build_id()).c_str());
  std::printf("hdf5      %s\n", io::hdf5_version().c_str());
  std::printf("json      %s\n", io::json_version().c_str());
  std::printf("threads   %d\n", num_threads());
  std::string levels;
  for (const std::string_view level : cpu::isa_levels()) levels += " " + std::string(level);
  std::printf("kernels   %s (built:%s)\n", std::string(cpu::kernels().isa).c_str(), levels.c_str());
  std::printf("cpu       %s\n", backend_of(Device::cpu()).description().c_str());
  if (device == Device::cpu())
    std::printf("device    cpu: %s\n", gpus::why_none().c_str());
  else
    std::printf("device    %s: %s\n", device.to_string().c_str(), backend_of(device).description().c_str());
  for (const auto& [name, found] : gpus::versions()) std::printf("%-9s %s\n", name.c_str(), found.c_str());
  return 0;
}

}  // namespace binade::doctor
