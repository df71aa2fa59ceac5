#include "cuda/observations.h"

#include <algorithm>

#include "cuda/gpu.h"

namespace binade::cuda {
namespace {
constexpr std::size_t kPair = 2 * sizeof(std::uint32_t);
}

Observations::Observations(const Api& api) : api_(api), here_(2 * kSlots, 0u) {
  void* memory = nullptr;
  check(api_.allocate(kSlots * kPair, &memory), "observation");
  words_ = static_cast<std::uint32_t*>(memory);
  check(api_.fill_zero(words_, kSlots * kPair), "observation");
  write_to_current();
}

void Observations::write_to_current() { check(api_.observe_at(slot(current_)), "observation"); }

std::int64_t Observations::next() {
  if (!touched_) return 0;
  touched_ = false;
  const std::int64_t number = current_++;
  if (current_ - outstanding_ >= kSlots) bring();
  write_to_current();
  return number;
}

Observation Observations::at(std::int64_t number) {
  if (number >= outstanding_) bring();
  const auto at = static_cast<std::size_t>(2 * (number % kSlots));
  return {.low = here_[at], .wide = here_[at + 1]};
}

/// In at most two pieces: the ring may wrap between the first and the last. What runs now is left where it is.
void Observations::bring() {
  while (outstanding_ < current_) {
    const std::int64_t first = outstanding_ % kSlots;
    const std::int64_t count = std::min(kSlots - first, current_ - outstanding_);
    const std::size_t bytes = static_cast<std::size_t>(count) * kPair;
    const Status brought = api_.copy(here_.data() + 2 * first, words_ + 2 * first, bytes, Copy::kDeviceToHost);
    if (brought != Status::kBadData) check(brought, "observation");
    check(api_.fill_zero(words_ + 2 * first, bytes), "observation");
    outstanding_ += count;
    check(brought, "observation");  // bad data was met, and the words are here
  }
}

}  // namespace binade::cuda
