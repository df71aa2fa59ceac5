#include "binade/core/device.h"

#include <charconv>

#include "binade/core/backend.h"
#include "binade/core/cpu_backend.h"
#include "binade/core/error.h"
#include "binade/core/gpus.h"

namespace binade {

Device Device::best() { return gpus::count() > 0 ? cuda() : cpu(); }

Device Device::parse(std::string_view text) {
  if (text == "auto") return best();
  if (text == "cpu") return cpu();
  constexpr std::string_view kCuda = "cuda";
  if (text.starts_with(kCuda)) {
    const std::string_view tail = text.substr(kCuda.size());
    int index = 0;
    bool good = tail.empty();
    if (tail.size() > 1 && tail[0] == ':') {
      const auto [end, error] = std::from_chars(tail.data() + 1, tail.data() + tail.size(), index);
      good = error == std::errc{} && end == tail.data() + tail.size() && index >= 0;
    }
    if (good) {
      backend_of(cuda(index));  // throws if the GPU is missing
      return cuda(index);
    }
  }
  throw ArgumentError(fmt::format("device: wanted auto, cpu, cuda or cuda:N, got '{}'", text));
}

std::string Device::to_string() const { return type == DeviceType::kCpu ? "cpu" : "cuda:" + std::to_string(index); }

Backend& backend_of(Device device) {
  if (device.type == DeviceType::kCpu) return cpu_backend();
  return gpus::open(device.index);
}

}  // namespace binade
