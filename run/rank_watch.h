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

/// What a rank was doing, as its file in the run folder says.
struct RankStatus {
  int rank = 0;
  std::string host{};
  std::int64_t process = 0;
  Communicator::Activity activity{};
  double age = 0;      ///< seconds since the file was written
  bool known = false;  ///< false: the file is missing, cannot be read, or is of an earlier process of the run
};

/// Returns the report about a rank that waited in vain: a line for each rank, which says what it does, for whom it
/// waits and since when, and a line that names the ranks to blame. `silent`: the age from which a rank gives no sign of
/// life any more.
std::string report_on_ranks(const std::vector<RankStatus>& ranks, double silent);

/// Writes what this rank does to the file ranks/rank-N.txt in the run folder, each second, from a thread of its own. If
/// a rank waits in vain, the files say what the others do: a way that needs no connection with them. The report is put
/// before the text of the RankError, and kept in ranks/report-N.txt. A rank goes on waiting for ranks that have begun
/// work with Wait::kWhileAlive, as long as their files are written.
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
  /// Returns true if all these ranks do work with Wait::kWhileAlive and give signs of life.
  bool work_while_alive(std::span<const int> missing) const;
  /// Returns the seconds without a write after which a rank gives no sign of life.
  double silent() const;

  Communicator& ranks_;
  io::FilesBelow folder_;
  std::optional<double> begun_{};  // when this rank wrote its file for the first time
  mutable std::mutex mutex_;       // guards the file of this rank and `ends_`
  std::condition_variable changed_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace binade::amp
