#include "binade/io/data/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "binade/core/error.h"
#include "binade/core/sha256.h"

namespace binade::io {
namespace {

// Values of RandomStream::index for the purpose kShuffle, one for each kind of draw in an epoch.
constexpr std::uint32_t kWeights = 1, kPools = 2, kBatches = 3, kMixture = 4, kFirstSet = 16;

std::uint64_t word_64(const RandomStream& stream, std::uint64_t i) {
  const auto block = stream.block(i);
  return (std::uint64_t{block[1]} << 32) | block[0];
}

/// Returns number i of a stream as a uniform number in (0, 1), with 53 random bits.
double uniform_53(const RandomStream& stream, std::uint64_t i) {
  return (static_cast<double>(word_64(stream, i) >> 11) + 0.5) * 0x1p-53;
}

RandomStream stream_of(std::uint64_t seed, std::int64_t epoch, std::uint32_t index) {
  return {.seed = seed, .purpose = RngPurpose::kShuffle, .step = static_cast<std::uint64_t>(epoch), .index = index};
}

std::string short_hash(const void* data, std::size_t bytes) {
  return to_hex(sha256({static_cast<const std::byte*>(data), bytes})).substr(0, 12);
}

void check_samples(std::int64_t samples) {
  check<DataError>(samples >= 1, "sampler: wanted at least one sample, got a data set with {}", samples);
}

}  // namespace

std::int64_t uniform_below(const RandomStream& stream, std::uint64_t i, std::int64_t n) {
  return static_cast<std::int64_t>(static_cast<unsigned __int128>(word_64(stream, i)) * static_cast<std::uint64_t>(n) >>
                                   64);
}

std::string describe(const std::vector<double>& numbers) {
  return short_hash(numbers.data(), numbers.size() * sizeof(double));
}
std::string describe(const std::vector<std::int64_t>& numbers) {
  return short_hash(numbers.data(), numbers.size() * sizeof(std::int64_t));
}

std::vector<std::int64_t> random_permutation(std::int64_t count, std::uint64_t seed, std::int64_t epoch,
                                             std::uint32_t index) {
  const RandomStream stream = stream_of(seed, epoch, index);
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t i = count - 1; i > 0; --i)
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(uniform_below(stream, static_cast<std::uint64_t>(i), i + 1))]);
  return order;
}

SequentialSampler::SequentialSampler(std::int64_t samples) : samples_(samples) { check_samples(samples); }

std::string SequentialSampler::name() const { return fmt::format("sequential ({})", samples_); }

std::vector<std::int64_t> SequentialSampler::indices(std::int64_t) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples_));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

ShuffledSampler::ShuffledSampler(std::int64_t samples, std::uint64_t seed) : samples_(samples), seed_(seed) {
  check_samples(samples);
}

std::string ShuffledSampler::name() const { return fmt::format("shuffled ({}, seed {})", samples_, seed_); }

std::vector<std::int64_t> ShuffledSampler::indices(std::int64_t epoch) const {
  return random_permutation(samples_, seed_, epoch);
}

WeightedSampler::WeightedSampler(WeightedSamplerOptions options) : options_(std::move(options)) {
  const std::vector<double>& weights = options_.weights;
  check<ArgumentError>(!weights.empty(), "weighted sampler: wanted a weight for each sample, got none");
  std::int64_t positive = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    check<ArgumentError>(weights[i] >= 0 && std::isfinite(weights[i]),
                         "weighted sampler: wanted finite weights >= 0, got {} for sample {}", weights[i], i);
    positive += weights[i] > 0;
    sums_.push_back(weights[i] + (i > 0 ? sums_.back() : 0));
  }
  check<ArgumentError>(positive > 0 && std::isfinite(sums_.back()),
                       "weighted sampler: wanted weights with a positive, finite sum, got {} from {} weights",
                       sums_.back(), weights.size());
  if (options_.epoch == 0) options_.epoch = options_.replacement ? std::ssize(weights) : positive;
  check<ArgumentError>(options_.epoch > 0, "weighted sampler: wanted an epoch of at least 1, got {}", options_.epoch);
  check<ArgumentError>(options_.replacement || options_.epoch <= positive,
                       "weighted sampler: wanted at most {} samples per epoch without replacement, as many as have a "
                       "positive weight, got {}",
                       positive, options_.epoch);
}

std::string WeightedSampler::name() const {
  return fmt::format("weighted {} ({} of {}, seed {}, {})",
                     options_.replacement ? "with replacement" : "without replacement", options_.epoch,
                     options_.weights.size(), options_.seed, describe(options_.weights));
}

std::vector<std::int64_t> WeightedSampler::indices(std::int64_t epoch) const {
  const RandomStream stream = stream_of(options_.seed, epoch, kWeights);
  const auto count = static_cast<std::size_t>(options_.epoch);
  std::vector<std::int64_t> order(count);
  if (options_.replacement) {
    // The last sample with a positive weight: rounding may make u * sum equal to the sum.
    const auto last = std::ranges::lower_bound(sums_, sums_.back()) - sums_.begin();
    for (std::size_t i = 0; i < count; ++i) {
      const auto above = std::ranges::upper_bound(sums_, uniform_53(stream, i) * sums_.back()) - sums_.begin();
      order[i] = std::min<std::int64_t>(above, last);
    }
    return order;
  }
  std::vector<std::pair<double, std::int64_t>> keys;
  for (std::size_t i = 0; i < options_.weights.size(); ++i)
    if (options_.weights[i] > 0)
      keys.emplace_back(-std::log(uniform_53(stream, i)) / options_.weights[i], static_cast<std::int64_t>(i));
  std::ranges::partial_sort(keys, keys.begin() + options_.epoch);
  for (std::size_t i = 0; i < count; ++i) order[i] = keys[i].second;
  return order;
}

ShareSampler::ShareSampler(std::shared_ptr<const Sampler> whole, std::int64_t part, std::int64_t parts,
                           UnevenShare uneven)
    : whole_(std::move(whole)), part_(part), parts_(parts), size_(0), uneven_(uneven) {
  check<ArgumentError>(whole_ != nullptr, "share sampler: wanted a sampler to divide, got none");
  check<ArgumentError>(0 <= part && part < parts, "share sampler: wanted a part from 0 to {}, got {}", parts - 1, part);
  const std::int64_t all = whole_->epoch_size();
  size_ = uneven == UnevenShare::kDrop ? all / parts : (all + parts - 1) / parts;
  check<ArgumentError>(size_ > 0, "share sampler: {} samples leave none for each of {} parts; use kRepeat", all, parts);
}

std::string ShareSampler::name() const {
  return fmt::format("part {} of {} of {}{}", part_, parts_, whole_->name(),
                     uneven_ == UnevenShare::kDrop ? ", the rest dropped" : "");
}

std::vector<std::int64_t> ShareSampler::indices(std::int64_t epoch) const {
  const std::vector<std::int64_t> all = whole_->indices(epoch);
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < size_; ++i)
    order.push_back(all.at(static_cast<std::size_t>(part_ + i * parts_) % all.size()));
  return order;
}

FixedBatchSampler::FixedBatchSampler(std::shared_ptr<const Sampler> sampler, std::int64_t batch, bool drop_last)
    : sampler_(std::move(sampler)), batch_(batch), drop_last_(drop_last) {
  check<ArgumentError>(sampler_ != nullptr, "batch sampler: wanted a sampler, got none");
  check<ArgumentError>(batch >= 1, "batch sampler: wanted a batch of at least 1, got {}", batch);
  check<ArgumentError>(!drop_last || sampler_->epoch_size() >= batch,
                       "batch sampler: {} samples make no full batch of {}, and drop_last leaves out the rest",
                       sampler_->epoch_size(), batch);
}

std::string FixedBatchSampler::name() const {
  return fmt::format("batches of {} of {}{}", batch_, sampler_->name(), drop_last_ ? ", the last dropped" : "");
}

std::vector<std::vector<std::int64_t>> FixedBatchSampler::batches(std::int64_t epoch) const {
  const std::vector<std::int64_t> all = sampler_->indices(epoch);
  std::vector<std::vector<std::int64_t>> batches;
  for (std::int64_t begin = 0; begin < std::ssize(all); begin += batch_) {
    const std::int64_t end = std::min<std::int64_t>(begin + batch_, std::ssize(all));
    if (drop_last_ && end - begin < batch_) break;
    batches.emplace_back(all.begin() + begin, all.begin() + end);
  }
  return batches;
}

BucketBatchSampler::BucketBatchSampler(BucketOptions options) : options_(std::move(options)) {
  check<ArgumentError>(!options_.lengths.empty(), "bucket sampler: wanted the length of each sample, got none");
  check<ArgumentError>(options_.tokens >= 1 && options_.max_batch >= 0 && options_.pool >= 1,
                       "bucket sampler: wanted tokens >= 1, max_batch >= 0 and pool >= 1, got {}, {} and {}",
                       options_.tokens, options_.max_batch, options_.pool);
  for (std::size_t i = 0; i < options_.lengths.size(); ++i)
    check<ArgumentError>(options_.lengths[i] >= 0 && options_.lengths[i] <= options_.tokens,
                         "bucket sampler: wanted lengths from 0 to the budget of {} tokens, got {} for sample {}; "
                         "shorten or leave out the sample (Subset), or enlarge the budget",
                         options_.tokens, options_.lengths[i], i);
}

std::string BucketBatchSampler::name() const {
  return fmt::format("buckets of {} tokens, at most {} samples, pools of {}, {} ({})", options_.tokens,
                     options_.max_batch, options_.pool,
                     options_.shuffle ? fmt::format("seed {}", options_.seed) : "in order", describe(options_.lengths));
}

std::vector<std::vector<std::int64_t>> BucketBatchSampler::batches(std::int64_t epoch) const {
  const auto count = std::ssize(options_.lengths);
  std::vector<std::int64_t> order = options_.shuffle ? random_permutation(count, options_.seed, epoch, kPools)
                                                     : SequentialSampler(count).indices(epoch);
  const auto length = [&](std::int64_t i) { return options_.lengths[static_cast<std::size_t>(i)]; };
  const std::int64_t most = options_.max_batch > 0 ? options_.max_batch : std::numeric_limits<std::int64_t>::max();
  std::vector<std::vector<std::int64_t>> batches;
  for (std::int64_t begin = 0; begin < count; begin += options_.pool) {
    const auto first = order.begin() + begin, last = order.begin() + std::min(count, begin + options_.pool);
    std::stable_sort(first, last, [&](std::int64_t a, std::int64_t b) { return length(a) < length(b); });
    bool full = true;
    for (auto it = first; it != last; ++it) {  // ascending, so the newest sample is the longest of its batch
      if (!full)
        full = std::ssize(batches.back()) >= most || length(*it) > options_.tokens / (std::ssize(batches.back()) + 1);
      if (full) batches.emplace_back();
      batches.back().push_back(*it);
      full = false;
    }
  }
  if (!options_.shuffle) return batches;
  std::vector<std::vector<std::int64_t>> shuffled;
  for (const std::int64_t i : random_permutation(std::ssize(batches), options_.seed, epoch, kBatches))
    shuffled.push_back(std::move(batches[static_cast<std::size_t>(i)]));
  return shuffled;
}

MixtureSampler::MixtureSampler(MixtureOptions options) : options_(std::move(options)) {
  const std::vector<double>& weights = options_.weights;
  check<ArgumentError>(!weights.empty() && weights.size() == options_.sizes.size(),
                       "mixture: wanted a weight for each of {} data sets, got {}", options_.sizes.size(),
                       weights.size());
  std::int64_t all = 0;
  double sum = 0;
  for (std::size_t s = 0; s < weights.size(); ++s) {
    check<ArgumentError>(weights[s] > 0 && std::isfinite(weights[s]),
                         "mixture: wanted finite weights > 0, got {} for data set {}", weights[s], s);
    check<DataError>(options_.sizes[s] >= 1, "mixture: wanted data sets of at least one sample, got {} in data set {}",
                     options_.sizes[s], s);
    all += options_.sizes[s];
    sum += weights[s];
  }
  if (options_.epoch == 0) options_.epoch = all;
  check<ArgumentError>(options_.epoch >= 1 && std::isfinite(sum), "mixture: wanted an epoch of at least 1, got {}",
                       options_.epoch);
  bounds_.push_back(0);
  double before = 0;
  for (std::size_t s = 0; s < weights.size(); ++s) {
    check<ArgumentError>(weights[s] / sum * static_cast<double>(options_.epoch) >= 1,
                         "mixture: wanted at least one sample per epoch from each data set, got a share of {:.3g} of "
                         "{} for data set {}; give it a larger weight or make epochs longer",
                         weights[s] / sum, options_.epoch, s);
    before += weights[s];
    bounds_.push_back(s + 1 == weights.size() ? 1 : before / sum);
  }
}

std::string MixtureSampler::name() const {
  return fmt::format("mixture of {} ({} per epoch, seed {}, {}, {})", options_.sizes.size(), options_.epoch,
                     options_.seed, describe(options_.sizes), describe(options_.weights));
}

// The difference of two bounds that are rounded down, so that the counts of all sets add up to the number of slots. No
// count decreases from epoch to epoch, because every share is at least one sample per epoch.
std::int64_t MixtureSampler::count(std::size_t s, std::int64_t epochs) const {
  const double slots = static_cast<double>(options_.epoch) * static_cast<double>(epochs);
  return static_cast<std::int64_t>(std::floor(bounds_[s + 1] * slots) - std::floor(bounds_[s] * slots));
}

std::vector<std::int64_t> MixtureSampler::indices(std::int64_t epoch) const {
  std::vector<std::int64_t> chosen;
  std::int64_t first = 0;  // number of the set's first sample
  for (std::size_t s = 0; s < options_.sizes.size(); ++s) {
    const std::int64_t size = options_.sizes[s];
    std::vector<std::int64_t> pass;
    std::int64_t known = -1;
    for (std::int64_t draw = count(s, epoch); draw < count(s, epoch + 1); ++draw) {
      if (draw / size != known) {
        known = draw / size;
        pass = random_permutation(size, options_.seed, known, kFirstSet + static_cast<std::uint32_t>(s));
      }
      chosen.push_back(first + pass[static_cast<std::size_t>(draw % size)]);
    }
    first += size;
  }
  std::vector<std::int64_t> order;
  for (const std::int64_t i : random_permutation(std::ssize(chosen), options_.seed, epoch, kMixture))
    order.push_back(chosen[static_cast<std::size_t>(i)]);
  return order;
}

std::vector<double> MixtureSampler::passes(std::int64_t epochs) const {
  std::vector<double> passes;
  for (std::size_t s = 0; s < options_.sizes.size(); ++s)
    passes.push_back(static_cast<double>(count(s, epochs)) / static_cast<double>(options_.sizes[s]));
  return passes;
}

}  // namespace binade::io
