#include "amp/telemetry.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string_view>

#include "core/error.h"

namespace binade::amp {
namespace {

double binades_left(std::uint32_t word, DType dtype) {
  const std::uint32_t limit = overflow_word(dtype);
  if (word == 0) return std::numeric_limits<double>::infinity();
  if (word >= limit) return -std::numeric_limits<double>::infinity();
  const double top = dtype == DType::f32 ? 128.0 : std::log2(static_cast<double>(std::bit_cast<float>(limit)));
  return top - std::log2(static_cast<double>(std::bit_cast<float>(word)));
}

}  // namespace

double headroom_of(const Observation& seen, DType low) {
  return std::min(binades_left(seen.low, low), binades_left(seen.wide, DType::f32));
}

void Telemetry::begin() {
  for (std::vector<Slot>* slots : {&forward_, &backward_})
    for (Slot& slot : *slots) slot.seen = {};
}

void Telemetry::note(const OpCall& call, std::span<const Tensor> results, const Observation& seen) {
  std::vector<Slot>& slots = call.direction == Direction::kForward ? forward_ : backward_;
  const auto index = static_cast<std::size_t>(call.tape_index);
  if (index >= slots.size()) slots.resize(index + 1);
  Slot& slot = slots[index];
  if (slot.module != call.module_path) slot.module = call.module_path;
  slot.op = call.info.name;
  for (const Tensor& result : results)
    if (result.defined() && is_floating(result.dtype()) && size_of(result.dtype()) == 2) slot.low = result.dtype();
  slot.seen.merge(seen);
}

void Telemetry::after_forward(const OpCall& call, std::span<const Tensor>, Tensors& outputs, const Observation& seen) {
  note(call, outputs, seen);
}

void Telemetry::after_backward(const OpCall& call, std::span<const Tensor>, std::span<const Tensor> gx,
                               const Observation& seen) {
  note(call, gx, seen);
}

Headroom Telemetry::least(Direction direction) const {
  Headroom least;
  for (const Slot& slot : direction == Direction::kForward ? forward_ : backward_) {
    const double binades = headroom_of(slot.seen, slot.low);
    if (binades < least.binades) least = {binades, slot.module, slot.op};
  }
  return least;
}

std::vector<ModuleHeadroom> Telemetry::by_module() const {
  std::vector<ModuleHeadroom> modules;
  std::map<std::string_view, std::size_t> index;
  const auto lower = [&](const std::vector<Slot>& slots, double ModuleHeadroom::*side) {
    for (const Slot& slot : slots) {
      const double binades = headroom_of(slot.seen, slot.low);
      // What an earlier attempt left here says nothing about this one.
      if (binades == std::numeric_limits<double>::infinity()) continue;
      const auto [at, fresh] = index.try_emplace(slot.module, modules.size());
      if (fresh) modules.push_back({.module = slot.module});
      double& least = modules[at->second].*side;
      least = std::min(least, binades);
    }
  };
  lower(forward_, &ModuleHeadroom::forward);
  lower(backward_, &ModuleHeadroom::backward);
  return modules;
}

double Telemetry::headroom_in(DType dtype, std::string_view target) const {
  double least = std::numeric_limits<double>::infinity();
  for (const std::vector<Slot>* slots : {&forward_, &backward_})
    for (const Slot& slot : *slots)
      if (slot.op != nullptr && target == fmt::format("{}/{}", slot.module, slot.op))
        least = std::min({least, binades_left(slot.seen.low, dtype), binades_left(slot.seen.wide, dtype)});
  return least;
}

}  // namespace binade::amp
