#pragma once

#include <cstdint>
#include <vector>

#include "binade/core/scope.h"
#include "binade/core/tensor.h"

namespace binade::nn {

class BatchNorm;

/// During its lifetime, records the batch statistics with which the batch norms of this thread update their running
/// statistics. Ranks send each other these records, so that each rank can update its running statistics with all
/// micro-batches of a step, in their order.
class StatisticsLog : NonCopyable {
 public:
  /// The statistics of one call of a batch norm.
  struct Entry {
    BatchNorm* module = nullptr;
    std::uint32_t micro_batch = 0;
    std::int64_t count = 0;  ///< values per channel
    Tensor mean{}, var{};    ///< (channels), biased variance
  };

  StatisticsLog();
  ~StatisticsLog();
  const std::vector<Entry>& entries() const { return entries_; }

  /// Called by BatchNorm, before it updates its running statistics.
  static void note(BatchNorm& module, const Tensor& mean, const Tensor& var, std::int64_t count);
  /// Updates the running statistics as the recorded call did.
  static void replay(const Entry& entry);

 private:
  StatisticsLog* outer_;
  std::vector<Entry> entries_;
};

}  // namespace binade::nn
