#include "binade/io/data/batch_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "binade/core/error.h"
#include "binade/core/random.h"
#include "binade/core/state_counts.h"

namespace binade::io {
namespace {

/// Returns number i of a stream as a uniform integer in [0, n). It uses 64 random bits; the bias is below n / 2^64.
std::int64_t uniform_below(const RandomStream& stream, std::uint64_t i, std::int64_t n) {
  const auto block = stream.block(i);
  const std::uint64_t bits = (std::uint64_t{block[1]} << 32) | block[0];
  return static_cast<std::int64_t>(static_cast<unsigned __int128>(bits) * static_cast<std::uint64_t>(n) >> 64);
}

/// Returns a random permutation of 0 … count - 1 (Fisher-Yates), drawn from the stream (seed, kShuffle, epoch).
std::vector<std::int64_t> permute(std::int64_t count, std::uint64_t seed, std::int64_t epoch) {
  const RandomStream stream{.seed = seed, .purpose = RngPurpose::kShuffle, .step = static_cast<std::uint64_t>(epoch)};
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = count - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(uniform_below(stream, static_cast<std::uint64_t>(i), i + 1))]);
  return order;
}

bool has_slots(const BatchOrigin& origin) {
  check<ArgumentError>(origin.slots.empty() || origin.slots.size() == origin.samples.size(),
                       "batch: wanted a slot for each of {} samples, or none, got {}", origin.samples.size(),
                       origin.slots.size());
  return !origin.slots.empty();
}

}  // namespace

BatchOrigin BatchOrigin::rows(std::int64_t first, std::int64_t count) const {
  check<ArgumentError>(first >= 0 && count >= 0 && first + count <= static_cast<std::int64_t>(samples.size()),
                       "batch: wanted rows inside 0 … {}, got {} from row {}", samples.size(), count, first);
  BatchOrigin part = *this;
  part.samples.assign(samples.begin() + first, samples.begin() + first + count);
  if (has_slots(*this)) part.slots.assign(slots.begin() + first, slots.begin() + first + count);
  return part;
}

BatchOrigin BatchOrigin::without(std::span<const std::int64_t> rows) const {
  const bool with_slots = has_slots(*this);
  BatchOrigin rest = *this;
  rest.samples.clear();
  rest.slots.clear();
  for (std::size_t row = 0; row < samples.size(); ++row) {
    if (std::ranges::binary_search(rows, static_cast<std::int64_t>(row))) continue;
    rest.samples.push_back(samples[row]);
    if (with_slots) rest.slots.push_back(slots[row]);
  }
  return rest;
}

StateDict BatchOrigin::state() const {
  StateDict state;
  state.put("begin", static_cast<std::int64_t>(begin));
  state.put("end", static_cast<std::int64_t>(end));
  state.put("epoch", epoch);
  state.put("samples", samples);
  state.put("slots", StateDict::Integers(slots.begin(), slots.end()));
  return state;
}

BatchOrigin BatchOrigin::from_state(const StateDict& state) {
  const StateDict::Integers &slots = read_counts(state, "slots"), &samples = read_counts(state, "samples");
  check<CheckpointError>(slots.empty() || slots.size() == samples.size(),
                         "batch: wanted a slot for each of its samples, got {} samples and {} slots", samples.size(),
                         slots.size());
  return {static_cast<std::uint64_t>(read_count(state, "begin")), static_cast<std::uint64_t>(read_count(state, "end")),
          read_count(state, "epoch"), samples, std::vector<std::uint64_t>(slots.begin(), slots.end())};
}

Tensor without_rows(const Tensor& tensor, std::span<const std::int64_t> rows) {
  check<ArgumentError>(tensor.rank() >= 1 && (rows.empty() || (rows.front() >= 0 && rows.back() < tensor.dim(0))),
                       "batch: wanted rows of a tensor {} to leave out, got {}", tensor.shape().to_string(),
                       fmt::join(rows, ", "));
  std::vector<std::int64_t> dims(tensor.shape().dims().begin(), tensor.shape().dims().end());
  dims[0] -= static_cast<std::int64_t>(rows.size());
  Tensor rest = Tensor::empty(Shape(dims), tensor.dtype(), tensor.device());
  std::int64_t to = 0;
  for (std::int64_t row = 0; row < tensor.dim(0); ++row)
    if (!std::ranges::binary_search(rows, row)) rest.narrow(to++, 1).copy_from(tensor.narrow(row, 1));
  return rest;
}

std::int64_t held_out_count(std::int64_t size, double fraction) {
  check<ArgumentError>(fraction > 0 && fraction < 1, "split: wanted a validation fraction between 0 and 1, got {}",
                       fraction);
  // The factor compensates the binary rounding of a decimal fraction (0.29 * 100 = 28.999…).
  const auto exact = static_cast<double>(size) * fraction * (1 + 1e-12);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(exact)));
}

BatchOrder::BatchOrder(LoaderOptions options) : options_(std::move(options)) {
  check<ArgumentError>(options_.batch >= 1, "loader: wanted a batch of at least 1, got {}", options_.batch);
  check<ArgumentError>(options_.prefetch >= 0, "loader: wanted prefetch of at least 0, got {}", options_.prefetch);
  check<DataError>(options_.samples >= 1, "loader: wanted at least one sample, got a data set with none");
  if (options_.order != SampleOrder::kRandomOffset || options_.epoch <= 0) options_.epoch = options_.samples;
}

bool BatchOrder::is_quarantined(std::int64_t sample) const {
  const std::int64_t reach = options_.order == SampleOrder::kRandomOffset ? options_.width - 1 : 0;
  const auto first = std::lower_bound(quarantined_.begin(), quarantined_.end(), sample - reach);
  return first != quarantined_.end() && *first <= sample + reach;
}

/// Returns the sample of a slot, or -1 if the sample is quarantined. For kRandomOffset, up to 64 offsets are drawn to
/// find one that is not.
std::int64_t BatchOrder::sample_at(std::uint64_t slot) {
  const auto position = static_cast<std::int64_t>(slot % static_cast<std::uint64_t>(options_.epoch));
  const auto epoch = static_cast<std::int64_t>(slot / static_cast<std::uint64_t>(options_.epoch));
  if (options_.order == SampleOrder::kRandomOffset) {
    const RandomStream stream{.seed = options_.seed, .purpose = RngPurpose::kData, .step = slot};
    for (std::uint64_t attempt = 0; attempt < 64; ++attempt) {
      const std::int64_t sample = uniform_below(stream, attempt, options_.samples);
      if (!is_quarantined(sample)) return sample;
    }
    return -1;
  }
  std::int64_t sample = position;
  if (options_.order == SampleOrder::kShuffled) {
    if (permuted_epoch_ != epoch) {
      permutation_ = permute(options_.samples, options_.seed, epoch);
      permuted_epoch_ = epoch;
    }
    sample = permutation_[static_cast<std::size_t>(position)];
  }
  return is_quarantined(sample) ? -1 : sample;
}

BatchOrigin BatchOrder::batch_at(std::uint64_t slot) {
  BatchOrigin origin;
  origin.begin = slot;
  origin.epoch = static_cast<std::int64_t>(slot / static_cast<std::uint64_t>(options_.epoch));
  std::int64_t left_out = 0;
  while (static_cast<std::int64_t>(origin.samples.size()) < options_.batch) {
    const std::int64_t sample = sample_at(slot);
    if (sample >= 0) {
      origin.samples.push_back(sample);
      origin.slots.push_back(slot);
      left_out = 0;
    } else {
      ++left_out;
      check<DataError>(left_out <= 2 * options_.epoch, "loader: all {} samples are quarantined", options_.samples);
    }
    ++slot;
    const bool epoch_ended = slot % static_cast<std::uint64_t>(options_.epoch) == 0;
    if (epoch_ended && options_.order == SampleOrder::kSequential && !origin.samples.empty()) break;
  }
  origin.end = slot;
  return origin;
}

void BatchOrder::quarantine(std::int64_t sample) {
  check<ArgumentError>(sample >= 0 && sample < options_.samples,
                       "loader: wanted a sample in 0 … {} to quarantine, got {}", options_.samples - 1, sample);
  for (const std::int64_t alike : options_.same_content ? options_.same_content(sample) : std::vector{sample}) {
    const auto place = std::lower_bound(quarantined_.begin(), quarantined_.end(), alike);
    if (place == quarantined_.end() || *place != alike) quarantined_.insert(place, alike);
  }
}

}  // namespace binade::io
