#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "binade/core/random.h"

namespace binade::io {

/// The order in which the samples of a data set are read. An epoch's order is a function of the settings and the number
/// of the epoch: a sampler has no state, so a resume needs only the position of the loader.
///
/// To write one, derive from this class and give it to LoaderOptions::sampler.
class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Returns the kind and all settings, the seed included. It is saved with the position, and a resume refuses another
  /// name, so samplers with different orders must have different names. describe() makes a short text of many numbers.
  virtual std::string name() const = 0;
  /// Returns the number of samples that an epoch reads. It must be at least 1, and the same for all epochs.
  virtual std::int64_t epoch_size() const = 0;
  /// Returns the epoch_size() sample numbers of an epoch, in order. The result must depend only on settings and epoch.
  /// Several threads may call it at once.
  virtual std::vector<std::int64_t> indices(std::int64_t epoch) const = 0;
  /// Returns the number of samples for which the settings were made (one weight each), so that a loader can refuse
  /// another number; 0 if the settings fit any number.
  virtual std::int64_t samples() const { return 0; }
};

/// Batches of different sizes. As for a Sampler, the batches of an epoch are a function of settings and epoch. Give it
/// to LoaderOptions::batch_sampler.
class BatchSampler {
 public:
  virtual ~BatchSampler() = default;
  virtual std::string name() const = 0;  ///< as Sampler::name()
  /// Returns an upper bound of the number of samples that an epoch reads, at least 1: the number of its slots.
  virtual std::int64_t epoch_size() const = 0;
  /// Returns the sample numbers of each batch of an epoch. No batch is empty, and there is at least one.
  virtual std::vector<std::vector<std::int64_t>> batches(std::int64_t epoch) const = 0;
};

/// Returns the first 12 hex digits of the SHA-256 of numbers, for the name of a sampler.
std::string describe(const std::vector<double>& numbers);
std::string describe(const std::vector<std::int64_t>& numbers);

/// Returns number i of a stream as a uniform integer in [0, n). It uses 64 random bits; the bias is below n / 2^64.
std::int64_t uniform_below(const RandomStream& stream, std::uint64_t i, std::int64_t n);

/// Returns a random permutation of 0 … count - 1 (Fisher-Yates), drawn from the stream (seed, kShuffle, epoch, index).
/// The order kShuffled is that of index 0.
std::vector<std::int64_t> random_permutation(std::int64_t count, std::uint64_t seed, std::int64_t epoch,
                                             std::uint32_t index = 0);

/// Reads the samples in the order 0, 1, 2 … in every epoch.
class SequentialSampler : public Sampler {
 public:
  /// Throws DataError for samples < 1.
  explicit SequentialSampler(std::int64_t samples);
  std::string name() const override;
  std::int64_t epoch_size() const override { return samples_; }
  std::vector<std::int64_t> indices(std::int64_t epoch) const override;

 private:
  std::int64_t samples_;
};

/// Every sample once per epoch, in an order drawn for the epoch.
class ShuffledSampler : public Sampler {
 public:
  /// Throws DataError for samples < 1.
  ShuffledSampler(std::int64_t samples, std::uint64_t seed);
  std::string name() const override;
  std::int64_t epoch_size() const override { return samples_; }
  std::vector<std::int64_t> indices(std::int64_t epoch) const override;

 private:
  std::int64_t samples_;
  std::uint64_t seed_;
};

/// Settings of a WeightedSampler.
struct WeightedSamplerOptions {
  std::vector<double> weights{};  ///< one per sample, finite, >= 0; their sum need not be 1
  std::int64_t epoch = 0;         ///< samples per epoch; 0: as many as weights (without replacement: weights > 0)
  bool replacement = true;        ///< true: independent draws; false: no sample comes twice in an epoch
  std::uint64_t seed = 0;
};

/// Draws samples with given probabilities. With replacement, each draw is sample i with probability weight_i / sum.
/// Without replacement, each draw is made among the remaining samples (Efraimidis and Spirakis, "Weighted random
/// sampling with a reservoir", 2006: those with the smallest -log(u_i) / weight_i, ascending).
class WeightedSampler : public Sampler {
 public:
  /// Throws ArgumentError for a weight that is negative or not finite, if all are 0, and if an epoch without
  /// replacement is longer than the number of positive weights.
  explicit WeightedSampler(WeightedSamplerOptions options);
  std::string name() const override;
  std::int64_t epoch_size() const override { return options_.epoch; }
  std::vector<std::int64_t> indices(std::int64_t epoch) const override;
  std::int64_t samples() const override { return std::ssize(options_.weights); }

 private:
  WeightedSamplerOptions options_;
  std::vector<double> sums_;  // sums_[i]: sum of weights 0 … i
};

/// How a ShareSampler divides samples if the number of parts does not divide their number.
enum class UnevenShare {
  kRepeat,  ///< the first samples of the epoch come again at its end
  kDrop,    ///< the last samples of the epoch are left out
};

/// Every n-th sample of another sampler: positions part, part + parts, part + 2 parts … All parts are equally long.
/// It is for programs that divide data by themselves; over the ranks of a Trainer, the loader divides the batches.
class ShareSampler : public Sampler {
 public:
  /// Throws ArgumentError unless 0 <= part < parts, and if kDrop leaves nothing.
  ShareSampler(std::shared_ptr<const Sampler> whole, std::int64_t part, std::int64_t parts,
               UnevenShare uneven = UnevenShare::kRepeat);
  std::string name() const override;
  std::int64_t samples() const override { return whole_->samples(); }
  std::int64_t epoch_size() const override { return size_; }
  std::vector<std::int64_t> indices(std::int64_t epoch) const override;

 private:
  std::shared_ptr<const Sampler> whole_;
  std::int64_t part_, parts_, size_;
  UnevenShare uneven_;
};

/// Batches of `batch` samples in the order of a sampler. The last one of an epoch is smaller, or left out.
class FixedBatchSampler : public BatchSampler {
 public:
  /// Throws ArgumentError for batch < 1, and if drop_last leaves no batch.
  FixedBatchSampler(std::shared_ptr<const Sampler> sampler, std::int64_t batch, bool drop_last);
  std::string name() const override;
  std::int64_t epoch_size() const override { return sampler_->epoch_size(); }
  std::vector<std::vector<std::int64_t>> batches(std::int64_t epoch) const override;

 private:
  std::shared_ptr<const Sampler> sampler_;
  std::int64_t batch_;
  bool drop_last_;
};

/// Settings of a BucketBatchSampler.
struct BucketOptions {
  std::vector<std::int64_t> lengths{};  ///< length of each sample, >= 0
  /// Largest size of a batch after padding: the number of its samples times the length of the longest one.
  std::int64_t tokens = 0;
  std::int64_t max_batch = 0;  ///< largest number of samples in a batch; 0: no limit
  /// Number of samples that are sorted by length together. A larger pool gives less padding, a smaller pool gives
  /// batches that differ more from epoch to epoch.
  std::int64_t pool = 4096;
  bool shuffle = true;  ///< draws the pools and the order of the batches; false: pools in order of sample number
  std::uint64_t seed = 0;
};

/// Batches of samples of similar length, under a budget of tokens. Every sample comes once per epoch: samples are
/// shuffled and divided into pools, each pool is sorted by length and cut into batches, and all batches are shuffled.
class BucketBatchSampler : public BatchSampler {
 public:
  /// Throws ArgumentError for settings out of range, and for a sample that is longer than the budget.
  explicit BucketBatchSampler(BucketOptions options);
  std::string name() const override;
  std::int64_t epoch_size() const override { return static_cast<std::int64_t>(options_.lengths.size()); }
  std::vector<std::vector<std::int64_t>> batches(std::int64_t epoch) const override;

 private:
  BucketOptions options_;
};

/// Settings of a MixtureSampler.
struct MixtureOptions {
  std::vector<std::int64_t> sizes{};  ///< samples of each data set
  std::vector<double> weights{};      ///< share of each data set in an epoch, > 0; their sum need not be 1
  std::int64_t epoch = 0;             ///< samples per epoch; 0: the sum of the sizes
  std::uint64_t seed = 0;
};

/// Mixes data sets, whose samples are numbered one set after the other, as in ConcatDataset. After every epoch, the
/// number of samples that came from a set differs from its exact share by less than 1. The samples of a set come in
/// passes: each once per pass, in an order drawn for the pass. An unfinished pass continues in the next epoch.
class MixtureSampler : public Sampler {
 public:
  /// Throws ArgumentError for settings out of range, and for a share of less than one sample per epoch.
  explicit MixtureSampler(MixtureOptions options);
  std::string name() const override;
  std::int64_t epoch_size() const override { return options_.epoch; }
  std::vector<std::int64_t> indices(std::int64_t epoch) const override;
  /// Returns how many times each set has been read after a number of epochs: 0.5 is half of its samples.
  std::vector<double> passes(std::int64_t epochs) const;

 private:
  /// Returns the number of samples of set s in the first `epochs` epochs.
  std::int64_t count(std::size_t s, std::int64_t epochs) const;

  MixtureOptions options_;
  std::vector<double> bounds_;  // bounds_[s]: share of the sets before s; one more entry, which is 1
};

}  // namespace binade::io
