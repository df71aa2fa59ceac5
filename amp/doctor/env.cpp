
#include "amp/doctor/commands.h"
#include "core/backend.h"
#include "core/gpus.h"
#include "core/kernels/dispatch.h"
#include "core/parallel.h"
#include "core/runtime.h"
#include "core/version.h"
#include "io/console.h"
#include "io/library_versions.h"

namespace binade::doctor {

int env() {
  const Device device = Device::best();
  const Runtime runtime({.device = device});
  io::print(fmt::format("build     {}\n", build_id()));
  io::print(fmt::format("hdf5      {}\n", io::hdf5_version()));
  io::print(fmt::format("json      {}\n", io::json_version()));
  io::print(fmt::format("threads   {}\n", num_threads()));
  std::string levels;
  for (const std::string_view level : cpu::isa_levels()) levels += " " + std::string(level);
  io::print(fmt::format("kernels   {} (built:{})\n", cpu::kernels().isa, levels));
  io::print(fmt::format("cpu       {}\n", backend_of(Device::cpu()).description()));
  if (device == Device::cpu())
    io::print(fmt::format("device    cpu: {}\n", gpus::why_none()));
  else
    io::print(fmt::format("device    {}: {}\n", device, backend_of(device).description()));
  for (const auto& [name, found] : gpus::versions()) io::print(fmt::format("{:<9} {}\n", name, found));
  return 0;
}

}  // namespace binade::doctor
