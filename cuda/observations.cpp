#include "binade/cuda/observations.h"

#include <algorithm>

#include "binade/core/captured_graph.h"
#include "binade/core/error.h"
#include "binade/cuda/gpu.h"

namespace binade::cuda {
namespace {
constexpr std::size_t kPair = 2 * sizeof(std::uint32_t);
}

Observations::Observations(const Api& api) : api_(api), host_words_(2 * kSlots, 0u) {
  void* memory = nullptr;
  check(api_.allocate(kSlots * kPair, &memory), "observation");
  words_ = static_cast<std::uint32_t*>(memory);
  check(api_.fill_zero(words_, kSlots * kPair), "observation");
}

Watch Observations::watch_next_kernel() {
  const detail::Watched watched = detail::watched();
  if (!watched.at_all) return {};
  touched_ = true;
  // If there are more observations than pairs, the excess shares the last pair; end_capture() returns the number
  // needed.
  std::uint32_t* const words = recorded_ ? recorded_->words + 2 * std::min(recorded_->count, recorded_->capacity - 1)
                                         : slot(current_);
  return {.words = words, .libraries = watched.libraries};
}

std::int64_t Observations::next() {
  if (!touched_) return 0;
  touched_ = false;
  if (recorded_) return kCapturedObservations + recorded_->count++;
  const std::int64_t number = current_++;
  if (current_ - outstanding_ >= kSlots) download();
  return number;
}

Observation Observations::at(std::int64_t number) {
  binade::check<DeviceError>(number < kCapturedObservations,
                             "observations made during capture are read from the recording after it has run");
  if (number >= outstanding_) download();
  const auto at = static_cast<std::size_t>(2 * (number % kSlots));
  return {.low = host_words_[at], .wide = host_words_[at + 1]};
}

void Observations::begin_capture(std::uint32_t* words, std::int64_t capacity) {
  recorded_ = {.words = words, .capacity = capacity, .count = 0, .touched_before = touched_};
  touched_ = false;
}

std::int64_t Observations::end_capture() {
  const Recorded ended = *recorded_;
  recorded_ = {};
  touched_ = ended.touched_before;
  return ended.count;
}

/// Downloads the words of all outstanding numbers before the current one, in at most two copies, since the ring buffer
/// may wrap around.
void Observations::download() {
  while (outstanding_ < current_) {
    const std::int64_t first = outstanding_ % kSlots;
    const std::int64_t count = std::min(kSlots - first, current_ - outstanding_);
    const std::size_t bytes = static_cast<std::size_t>(count) * kPair;
    const Status copied = api_.copy(host_words_.data() + 2 * first, words_ + 2 * first, bytes, Copy::kDeviceToHost);
    if (copied != Status::kBadData) check(copied, "observation");
    check(api_.fill_zero(words_ + 2 * first, bytes), "observation");
    outstanding_ += count;
    check(copied, "observation");  // throws for bad data, so it is checked only after the words have been stored
  }
}

}  // namespace binade::cuda
