#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "binade/core/state_dict.h"
#include "binade/core/tensor.h"

namespace binade::io {

class BatchSampler;
class Sampler;

/// The order in which a loader visits samples. The sample is a function of (seed, slot), where slots 0, 1, 2 … number
/// the samples of all epochs. The slot is the only state, so a resumed loader continues with the same samples.
enum class SampleOrder {
  /// Every sample comes once per epoch, in an order drawn for the epoch. The last samples of an epoch share a batch
  /// with the first of the next, so that every batch is full.
  kShuffled,
  kRandomOffset,  ///< the sample of each slot is a window at a uniformly drawn offset (nanoGPT's sampling of text)
  kSequential,    ///< every sample comes once per epoch, ascending; a batch never crosses the epoch's end (evaluation)
};

/// How the last samples of an epoch are used if they do not fill a batch.
enum class LastBatch {
  kByOrder,  ///< kShort for SampleOrder::kSequential, otherwise kFilled
  kFilled,   ///< they share a batch with the first samples of the next epoch
  kShort,    ///< they form a smaller batch
  kDropped,  ///< they are left out
};

/// Settings of a Loader.
struct LoaderOptions {
  std::int64_t batch = 1;  ///< samples per batch
  std::uint64_t seed = 0;
  SampleOrder order = SampleOrder::kShuffled;
  std::int64_t samples = 0;  ///< size of the data set; for kRandomOffset the number of possible offsets
  std::int64_t epoch = 0;    ///< kRandomOffset: slots per epoch; 0 means `samples`. Other orders set it
  std::int64_t width = 1;    ///< kRandomOffset: length of a sample; samples a and b overlap if |a - b| < width
  std::string content{};     ///< content hash of the data set; a resume compares it
  int prefetch = 2;          ///< number of batches that worker threads make ahead; 0: next() makes each batch
  /// Returns the samples with the same content as a sample, itself included: they are quarantined together. Optional;
  /// without it only the sample itself is quarantined.
  std::function<std::vector<std::int64_t>(std::int64_t sample)> same_content{};
  int workers = 1;  ///< number of threads that make batches if prefetch > 0; at least as many are made ahead
  LastBatch last = LastBatch::kByOrder;
  std::shared_ptr<const Sampler> sampler{};  ///< the order, instead of `order` (io/data/sampler.h)
  /// The batches, instead of `order`, `sampler`, `batch` and `last`.
  std::shared_ptr<const BatchSampler> batch_sampler{};
};

/// The origin of a batch, from which it can be made again.
struct BatchOrigin {
  std::uint64_t begin = 0;  ///< first slot of this batch
  std::uint64_t end = 0;    ///< slot after the last one; the slots of quarantined samples in between are skipped
  std::int64_t epoch = 0;   ///< epoch of the first slot
  std::vector<std::int64_t> samples{};  ///< one number per row: index in the data set, or offset of the window
  std::vector<std::uint64_t>
      slots{};  ///< one slot per row, from which a replay draws the same augmentation; may be empty

  /// Returns the origin of `count` rows from row `first` on.
  BatchOrigin rows(std::int64_t first, std::int64_t count) const;
  /// Returns the origin of the batch without some rows; `rows` must be ascending.
  BatchOrigin without(std::span<const std::int64_t> rows) const;
  StateDict state() const;
  static BatchOrigin from_state(const StateDict& state);  ///< throws CheckpointError
};

/// Returns a copy without some rows (dimension 0); `rows` must be ascending. Throws ArgumentError for a row out of
/// range.
Tensor without_rows(const Tensor& tensor, std::span<const std::int64_t> rows);

/// Returns floor(fraction * size), at least 1: the number of samples to hold out. Throws ArgumentError unless
/// 0 < fraction < 1.
std::int64_t held_out_count(std::int64_t size, double fraction);

/// Decides which samples form a batch. Starts no threads and reads no data. A call takes time O(batch), and O(samples)
/// at the start of an epoch.
class BatchOrder {
 public:
  /// Throws ArgumentError for settings out of range, DataError for no samples.
  explicit BatchOrder(LoaderOptions options);

  /// Returns the batch that begins at `slot`, without quarantined samples. Throws DataError if all are quarantined, and
  /// ArgumentError if a sampler returns numbers outside of the data set, or too few.
  BatchOrigin batch_at(std::uint64_t slot);

  /// Excludes a sample from now on, together with samples of the same content and, for kRandomOffset, windows that
  /// overlap it.
  void quarantine(std::int64_t sample);
  const std::vector<std::int64_t>& quarantined() const { return quarantined_; }
  const LoaderOptions& options() const { return options_; }
  /// Returns a text that describes the order. It is saved with the position.
  std::string name() const;
  /// Returns the number of batches in an epoch, including a batch that two epochs share.
  std::int64_t batches_in(std::int64_t epoch);

 private:
  bool is_window() const {
    return !options_.sampler && !options_.batch_sampler && options_.order == SampleOrder::kRandomOffset;
  }
  void plan(std::int64_t epoch);
  std::int64_t sample_at(std::uint64_t slot);
  bool is_quarantined(std::int64_t sample) const;
  bool fills_batch(std::uint64_t slot);
  BatchOrigin sampled_batch_at(std::uint64_t slot);
  std::uint64_t epoch_slots() const { return static_cast<std::uint64_t>(options_.epoch); }

  LoaderOptions options_;
  std::vector<std::int64_t> quarantined_;  // ascending
  LastBatch last_ = LastBatch::kFilled;    // options_.last, with kByOrder resolved
  std::int64_t planned_epoch_ = -1;        // epoch of indices_ and ends_; -1: none yet
  std::vector<std::int64_t> indices_;      // sample of each position, except for kRandomOffset and kSequential
  std::vector<std::int64_t> ends_;         // position after each batch of the batch sampler
};

}  // namespace binade::io
