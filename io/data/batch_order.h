#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "binade/core/state_dict.h"
#include "binade/core/tensor.h"

namespace binade::io {

/// In which order a loader visits samples. Everything is a function of (seed, slot), where slot 0, 1, 2 … counts the
/// places of all epochs: nothing is remembered but the slot, so a resumed loader goes on with the same samples.
enum class SampleOrder {
  kShuffled,  ///< every sample once per epoch, in an order drawn for the epoch. An epoch's rest and the next epoch's
              ///< first samples share a batch, so that every batch is full
  kRandomOffset,  ///< slot s is a window at an offset drawn uniformly for s (nanoGPT's sampling of text)
  kSequential,    ///< every sample once per epoch, ascending; a batch never crosses the epoch's end (evaluation)
};

struct LoaderOptions {
  std::int64_t batch = 1;
  std::uint64_t seed = 0;
  SampleOrder order = SampleOrder::kShuffled;
  std::int64_t samples = 0;  ///< samples of the data set; for kRandomOffset the number of possible offsets
  std::int64_t epoch = 0;    ///< slots per epoch; 0 means `samples`
  std::int64_t width = 1;    ///< kRandomOffset: units that a sample covers; two samples overlap when |a - b| < width
  std::string content{};     ///< content hash of the data set; a resume compares it
  int prefetch = 2;          ///< batches made ahead by one worker thread; 0: made when asked for
  /// The samples that hold what this one holds, itself included: they are quarantined with it. Left out: only itself.
  std::function<std::vector<std::int64_t>(std::int64_t sample)> same_content{};
};

/// Where a batch came from: enough to make it again.
struct BatchOrigin {
  std::uint64_t begin = 0;  ///< the first slot of this batch
  std::uint64_t end = 0;    ///< the slot after its last one (more than a batch further where samples were left out)
  std::int64_t epoch = 0;   ///< of the first slot
  std::vector<std::int64_t> samples{};  ///< one id per row: index in the data set, or offset of the window
  std::vector<std::uint64_t>
      slots{};  ///< one per row, or none: key of the row's augmentation, the same in every replay

  BatchOrigin rows(std::int64_t first, std::int64_t count) const;
  BatchOrigin without(std::span<const std::int64_t> rows) const;  ///< `rows` ascending
  StateDict state() const;
  static BatchOrigin from_state(const StateDict& state);  ///< throws CheckpointError
};

/// A copy without some rows of dimension 0, `rows` ascending. Throws ArgumentError for one that is not there.
Tensor without_rows(const Tensor& tensor, std::span<const std::int64_t> rows);

/// Which samples form which batch. No thread and no data; one call is O(batch), and O(samples) when an epoch begins.
class BatchOrder {
 public:
  /// Throws ArgumentError for batch < 1, DataError for no samples.
  explicit BatchOrder(LoaderOptions options);

  /// The batch that begins at `slot`, quarantined samples left out. Throws DataError when every sample is quarantined.
  BatchOrigin batch_at(std::uint64_t slot);

  /// Leaves out a sample from now on, with those of the same content and, with kRandomOffset, every window that
  /// overlaps it.
  void quarantine(std::int64_t sample);
  const std::vector<std::int64_t>& quarantined() const { return quarantined_; }
  const LoaderOptions& options() const { return options_; }
  std::int64_t slots_per_epoch() const { return options_.epoch; }

 private:
  std::int64_t sample_at(std::uint64_t slot);
  bool is_quarantined(std::int64_t sample) const;

  LoaderOptions options_;
  std::vector<std::int64_t> quarantined_;  // ascending
  std::int64_t permuted_epoch_ = -1;
  std::vector<std::int64_t> permutation_;
};

}  // namespace binade::io
