#include "binade/amp/watch/device_numbers.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "binade/core/backend.h"
#include "binade/core/error.h"

namespace binade::amp {
namespace {

constexpr std::int64_t kLeastRoom = 2048;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

void DeviceNumbers::begin() {
  if (!kept_) blocks_.clear();
  for (Block& block : blocks_) {
    block.memory.fill(kInfinity);
    block.taken = 0;
  }
  taken_ = 0;
}

DeviceNumbers::Place DeviceNumbers::take(std::int64_t count, Device device) {
  if (blocks_.empty() || blocks_.back().taken + count > blocks_.back().memory.numel()) {
    check<DeviceError>(!kept_, "telemetry: a recorded step looks at more than the same step did before");
    const std::int64_t more = std::max({kLeastRoom, count, room_});
    room_ = blocks_.empty() ? more : room_ + more;
    blocks_.push_back({Tensor::full({more}, kInfinity, DType::f64, device)});
    device_ = device;
  }
  Block& block = blocks_.back();
  const Place place{taken_, block.memory.mutable_data<double>() + block.taken};
  block.taken += count;
  taken_ += count;
  return place;
}

std::vector<double> DeviceNumbers::bring() {
  std::vector<double> numbers(static_cast<std::size_t>(taken_));
  double* to = numbers.data();
  for (const Block& block : blocks_) {
    if (block.taken == 0) continue;
    backend_of(device_).copy(to, block.memory.raw(), static_cast<std::size_t>(block.taken) * sizeof(double),
                             CopyKind::kDeviceToHost, Stream{device_});
    to += block.taken;
  }
  if (!kept_) blocks_.clear();
  return numbers;
}

void DeviceNumbers::keep_room(const DeviceNumbers& other) {
  blocks_.clear();
  taken_ = 0;
  room_ = other.room_;
  device_ = other.device_;
  if (room_ > 0) blocks_.push_back({Tensor::full({room_}, kInfinity, DType::f64, device_)});
  kept_ = true;
}

std::span<const double> DeviceNumbers::there() const {
  if (blocks_.empty()) return {};
  return {blocks_.front().memory.data<double>(), static_cast<std::size_t>(taken_)};
}

}  // namespace binade::amp
