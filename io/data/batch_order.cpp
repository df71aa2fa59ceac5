#include "binade/io/data/batch_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "binade/core/error.h"
#include "binade/core/random.h"
#include "binade/core/state_counts.h"
#include "binade/io/data/sampler.h"

namespace binade::io {
namespace {

std::string name_of(SampleOrder order) {
  constexpr const char* kNames[] = {"shuffled", "random-offset", "sequential"};
  return kNames[static_cast<std::size_t>(order)];
}

LastBatch last_by(const LoaderOptions& options) {
  if (options.last != LastBatch::kByOrder) return options.last;
  return !options.sampler && options.order == SampleOrder::kSequential ? LastBatch::kShort : LastBatch::kFilled;
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

BatchOrder::BatchOrder(LoaderOptions options) : options_(std::move(options)), last_(last_by(options_)) {
  check<ArgumentError>(options_.batch >= 1, "loader: wanted a batch of at least 1, got {}", options_.batch);
  check<ArgumentError>(options_.prefetch >= 0, "loader: wanted prefetch of at least 0, got {}", options_.prefetch);
  check<ArgumentError>(options_.workers >= 1 && options_.workers <= 1024,
                       "loader: wanted 1 to 1024 workers, got {}; with prefetch = 0 no worker is used",
                       options_.workers);
  check<DataError>(options_.samples >= 1, "loader: wanted at least one sample, got a data set with none");
  check<ArgumentError>(!options_.sampler || !options_.batch_sampler,
                       "loader: wanted a sampler or a batch sampler, got both");
  if (options_.sampler)
    check<ArgumentError>(
        options_.sampler->samples() == 0 || options_.sampler->samples() == options_.samples,
        "loader: the sampler has weights for {} samples, but the data set has {}; for weights of classes, "
        "give each sample the weight of its class divided by the number of samples of the class",
        options_.sampler->samples(), options_.samples);
  if (options_.sampler || options_.batch_sampler) {
    options_.epoch = options_.sampler ? options_.sampler->epoch_size() : options_.batch_sampler->epoch_size();
    check<ArgumentError>(options_.epoch >= 1,
                         "loader: wanted a sampler of at least one sample per epoch, got '{}' of {}", name(),
                         options_.epoch);
  } else if (options_.order != SampleOrder::kRandomOffset || options_.epoch <= 0) {
    options_.epoch = options_.samples;
  }
}

std::string BatchOrder::name() const {
  if (options_.batch_sampler) return options_.batch_sampler->name();
  const std::string order = options_.sampler ? options_.sampler->name() : name_of(options_.order);
  LoaderOptions usual = options_;
  usual.last = LastBatch::kByOrder;
  if (last_ == last_by(usual)) return order;
  return order + (last_ == LastBatch::kFilled  ? ", last batch filled"
                  : last_ == LastBatch::kShort ? ", last batch short"
                                               : ", last batch dropped");
}

std::int64_t BatchOrder::batches_in(std::int64_t epoch) {
  if (options_.batch_sampler) {
    plan(epoch);
    return std::ssize(ends_);
  }
  return last_ == LastBatch::kDropped ? options_.epoch / options_.batch
                                      : (options_.epoch + options_.batch - 1) / options_.batch;
}

/// Fills indices_ and ends_ for an epoch, and checks the result of a sampler.
void BatchOrder::plan(std::int64_t epoch) {
  if (planned_epoch_ == epoch) return;
  planned_epoch_ = -1;
  ends_.clear();
  if (options_.batch_sampler) {
    indices_.clear();
    for (const std::vector<std::int64_t>& batch : options_.batch_sampler->batches(epoch)) {
      check<ArgumentError>(!batch.empty(), "batch sampler '{}': wanted no empty batch, got one in epoch {}", name(),
                           epoch);
      indices_.insert(indices_.end(), batch.begin(), batch.end());
      ends_.push_back(std::ssize(indices_));
    }
    check<ArgumentError>(!indices_.empty() && std::ssize(indices_) <= options_.epoch,
                         "batch sampler '{}': wanted 1 to {} samples per epoch, as epoch_size() says, got {} in epoch "
                         "{}",
                         name(), options_.epoch, indices_.size(), epoch);
  } else if (options_.sampler) {
    indices_ = options_.sampler->indices(epoch);
    check<ArgumentError>(std::ssize(indices_) == options_.epoch,
                         "sampler '{}': wanted {} samples per epoch, as epoch_size() says, got {} in epoch {}", name(),
                         options_.epoch, indices_.size(), epoch);
  } else {
    indices_ = random_permutation(options_.samples, options_.seed, epoch);
  }
  for (const std::int64_t sample : indices_)
    check<ArgumentError>(sample >= 0 && sample < options_.samples,
                         "sampler '{}': wanted samples from 0 to {}, got {} in epoch {}", name(), options_.samples - 1,
                         sample, epoch);
  planned_epoch_ = epoch;
}

bool BatchOrder::is_quarantined(std::int64_t sample) const {
  const std::int64_t reach = is_window() ? options_.width - 1 : 0;
  const auto first = std::lower_bound(quarantined_.begin(), quarantined_.end(), sample - reach);
  return first != quarantined_.end() && *first <= sample + reach;
}

/// Returns the sample of a slot, or -1 if the sample is quarantined. For kRandomOffset, up to 64 offsets are drawn to
/// find one that is not.
std::int64_t BatchOrder::sample_at(std::uint64_t slot) {
  const auto position = static_cast<std::int64_t>(slot % static_cast<std::uint64_t>(options_.epoch));
  const auto epoch = static_cast<std::int64_t>(slot / static_cast<std::uint64_t>(options_.epoch));
  if (is_window()) {
    const RandomStream stream{.seed = options_.seed, .purpose = RngPurpose::kData, .step = slot};
    for (std::uint64_t attempt = 0; attempt < 64; ++attempt) {
      const std::int64_t sample = uniform_below(stream, attempt, options_.samples);
      if (!is_quarantined(sample)) return sample;
    }
    return -1;
  }
  std::int64_t sample = position;
  if (options_.sampler || options_.order == SampleOrder::kShuffled) {
    plan(epoch);
    sample = indices_[static_cast<std::size_t>(position)];
  }
  return is_quarantined(sample) ? -1 : sample;
}

/// True if the samples from `slot` to the end of its epoch fill a batch.
bool BatchOrder::fills_batch(std::uint64_t slot) {
  std::int64_t found = 0;
  do {
    if (sample_at(slot) >= 0 && ++found == options_.batch) return true;
    ++slot;
  } while (slot % epoch_slots() != 0);
  return false;
}

BatchOrigin BatchOrder::batch_at(std::uint64_t slot) {
  if (options_.batch_sampler) return sampled_batch_at(slot);
  BatchOrigin origin;
  origin.begin = slot;
  origin.epoch = static_cast<std::int64_t>(slot / epoch_slots());
  std::int64_t left_out = 0;
  int dropped_epochs = 0;
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
    if (slot % epoch_slots() != 0 || last_ == LastBatch::kFilled) continue;
    if (last_ == LastBatch::kShort && !origin.samples.empty()) break;
    if (last_ == LastBatch::kDropped && std::ssize(origin.samples) < options_.batch) {
      check<DataError>(++dropped_epochs <= 2,
                       "loader: an epoch of {} samples makes no full batch of {}, and the last batch is dropped",
                       options_.epoch, options_.batch);
      origin.samples.clear();
      origin.slots.clear();
      origin.epoch = static_cast<std::int64_t>(slot / epoch_slots());
    }
  }
  // After the last full batch, the cursor is at the next epoch, not at samples that are left out.
  if (last_ == LastBatch::kDropped && slot % epoch_slots() != 0 && !fills_batch(slot))
    slot = (slot / epoch_slots() + 1) * epoch_slots();
  origin.end = slot;
  return origin;
}

BatchOrigin BatchOrder::sampled_batch_at(std::uint64_t slot) {
  BatchOrigin origin;
  origin.begin = slot;
  for (int epochs = 0; epochs <= 2;) {
    const auto epoch = static_cast<std::int64_t>(slot / epoch_slots());
    const std::uint64_t first = slot - slot % epoch_slots();
    plan(epoch);
    const auto position = static_cast<std::int64_t>(slot - first);
    const auto end = std::ranges::upper_bound(ends_, position);
    if (end != ends_.end())
      for (std::int64_t at = position; at < *end; ++at) {
        const std::int64_t sample = indices_[static_cast<std::size_t>(at)];
        if (is_quarantined(sample)) continue;
        origin.samples.push_back(sample);
        origin.slots.push_back(first + static_cast<std::uint64_t>(at));
      }
    const bool ended = end == ends_.end() || *end == ends_.back();
    epochs += ended;
    slot = ended ? first + epoch_slots() : first + static_cast<std::uint64_t>(*end);
    if (origin.samples.empty()) continue;
    origin.epoch = epoch;
    origin.end = slot;
    return origin;
  }
  throw DataError(fmt::format("loader: all {} samples are quarantined", options_.samples));
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
