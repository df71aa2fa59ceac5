#include "binade/core/backend.h"
#include "binade/core/gpus.h"
#include "binade/core/kernels/dispatch.h"
#include "binade/core/parallel.h"
#include "binade/core/runtime.h"
#include "binade/core/version.h"
#include "binade/doctor/commands.h"
#include "binade/io/checkpoint/file.h"
#include "binade/io/terminal/console.h"
#include "binade/io/text/json_reader.h"

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
  io::print(fmt::format("kernels   {} (built:{})\n", cpu::level().isa, levels));
  io::print(fmt::format("cpu       {}\n", backend_of(Device::cpu()).description()));
  if (device == Device::cpu())
    io::print(fmt::format("device    cpu: {}\n", gpus::why_none()));
  else
    io::print(fmt::format("device    {}: {}\n", device, backend_of(device).description()));
  for (const auto& [name, found] : gpus::versions()) io::print(fmt::format("{:<9} {}\n", name, found));
  return 0;
}

}  // namespace binade::doctor
