#include "amp/device_numbers.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/backend.h"
#include "core/error.h"

namespace binade::amp {
namespace {

constexpr std::int64_t kLeastRoom = 2048;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

void DeviceNumbers::drop_grown() {
  if (grown_) blocks_.clear();
  grown_ = false;
}

void DeviceNumbers::begin(bool wanted) {
  drop_grown();
  if (wanted && room_ > 0) {
    if (blocks_.empty()) blocks_.push_back({Tensor::empty({room_}, DType::f64, device_)});
    blocks_.front().memory.fill(kInfinity);
    blocks_.front().taken = 0;
  }
  taken_ = 0;
}

DeviceNumbers::Place DeviceNumbers::take(std::int64_t count, Device device) {
  if (blocks_.empty() || blocks_.back().taken + count > blocks_.back().memory.numel()) {
    check<DeviceError>(!kept_, "telemetry: a recorded step looks at more than the same step did before");
    const std::int64_t more = std::max({kLeastRoom, count, room_});
    blocks_.push_back({Tensor::full({more}, kInfinity, DType::f64, device)});
    room_ += more;
    device_ = device;
    grown_ = true;
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
  drop_grown();
  return numbers;
}

void DeviceNumbers::keep_room(const DeviceNumbers& other) {
  blocks_.clear();
  taken_ = 0;
  grown_ = false;
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
