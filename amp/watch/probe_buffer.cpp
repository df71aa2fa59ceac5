#include "binade/amp/watch/probe_buffer.h"

#include <limits>

#include "binade/core/backend.h"

namespace binade::amp {
namespace {

constexpr std::int64_t kMinBlock = 2048;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

void ProbeBuffer::clear() {
  if (!reserved_) blocks_.clear();
  for (Block& block : blocks_) {
    block.memory.fill(kInfinity);
    block.used = 0;
  }
  used_ = 0;
}

ProbeBuffer::Range ProbeBuffer::allocate(std::int64_t count, Device device) {
  if (blocks_.empty() || blocks_.back().used + count > blocks_.back().memory.numel()) {
    check<DeviceError>(!reserved_, "telemetry: a captured step takes more probes than the same step did before");
    const std::int64_t more = std::max({kMinBlock, count, capacity_});
    capacity_ = blocks_.empty() ? more : capacity_ + more;
    blocks_.push_back({Tensor::full({more}, kInfinity, DType::f64, device)});
    device_ = device;
  }
  Block& block = blocks_.back();
  const Range range{used_, block.memory.mutable_data<double>() + block.used};
  block.used += count;
  used_ += count;
  return range;
}

std::vector<double> ProbeBuffer::copy_to_host() {
  std::vector<double> numbers(static_cast<std::size_t>(used_));
  double* to = numbers.data();
  for (const Block& block : blocks_) {
    if (block.used == 0) continue;
    backend_of(device_).copy(to, block.memory.raw(), static_cast<std::size_t>(block.used) * sizeof(double),
                             CopyKind::kDeviceToHost, Stream{device_});
    to += block.used;
  }
  if (!reserved_) blocks_.clear();
  return numbers;
}

void ProbeBuffer::reserve_like(const ProbeBuffer& other) {
  blocks_.clear();
  used_ = 0;
  capacity_ = other.capacity_;
  device_ = other.device_;
  if (capacity_ > 0) blocks_.push_back({Tensor::full({capacity_}, kInfinity, DType::f64, device_)});
  reserved_ = true;
}

std::span<const double> ProbeBuffer::device_values() const {
  if (blocks_.empty()) return {};
  return {blocks_.front().memory.data<double>(), static_cast<std::size_t>(used_)};
}

}  // namespace binade::amp
