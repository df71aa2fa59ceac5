#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "binade/core/communicator.h"
#include "binade/io/files/files_below.h"

namespace binade::amp {

/// The activity of a rank, as its file in the run folder states it.
struct RankStatus {
  int rank = 0;
  std::string host{};
  std::int64_t process = 0;
  Communicator::Activity activity{};
  double age = 0;      ///< seconds since the file was written
  bool known = false;  ///< false: the file is missing, cannot be read, or is of an earlier process of the run
};

/// Returns the report for a wait that timed out: a line for each rank, with its activity, the ranks for which it waits
/// and since when, and a line that names the ranks that caused the timeout. `silent`: the age of a file, in seconds,
/// from which its rank counts as silent.
std::string report_on_ranks(const std::vector<RankStatus>& ranks, double silent);

/// A background thread writes the activity of this rank to ranks/rank-N.txt in the run folder every second. If a wait
/// times out, the files show the activity of all ranks, without a connection to them. The report is put before the text
/// of the RankError, and stored in ranks/report-N.txt. A rank continues to wait for ranks that do work with
/// Wait::kWhileAlive as long as their files are updated.
class RankWatch {
 public:
  /// `folder`: the run folder, which must exist. The communicator must outlive the watch. Throws StorageError if the
  /// folder cannot be opened.
  RankWatch(Communicator& ranks, const std::string& folder);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  /// Reads the files of all ranks.
  std::vector<RankStatus> read() const;

 private:
  void write() const;
  std::string report() const;
  /// Returns true if all these ranks do work with Wait::kWhileAlive and their files are up to date.
  bool work_while_alive(std::span<const int> missing) const;
  /// Returns the number of seconds without a write after which a rank counts as silent.
  double silent() const;

  Communicator& ranks_;
  io::FilesBelow folder_;
  std::optional<double> begun_{};  // time at which this rank first wrote its file
  mutable std::mutex mutex_;       // guards the file of this rank and `ends_`
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace binade::amp
