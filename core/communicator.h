#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "binade/core/error.h"
#include "binade/core/scope.h"

namespace binade {

/// Another rank failed or does not answer, or its state differs from the state of this rank.
struct RankError : ErrorWithCode<52> {
  using ErrorWithCode::ErrorWithCode;
};

using Bytes = std::vector<std::byte>;

/// Bytes that this rank sends to another one.
struct OutgoingPiece {
  int to = 0;
  std::span<const std::byte> bytes{};
};
/// A buffer for bytes from another rank. It must have the size of the piece that the other rank sends.
struct IncomingPiece {
  int from = 0;
  std::span<std::byte> bytes{};
};

/// How long the other ranks wait for this rank.
enum class Wait {
  kUntilDeadline,  ///< until their deadline
  kWhileAlive,     ///< beyond it, while this rank keeps its status file up to date: for an evaluation or a slow save
};

/// The connection of one rank with the others. Ranks are copies of one program that make a training step together
/// (docs/ranks.md). An engine (alone, threads, MPI) moves bytes and never computes with them: Binade adds numbers
/// itself, in an order that does not depend on the number of ranks (core/rank_tree.h).
///
/// All ranks make the same calls in the same order. Each call has a deadline. `what` names the exchange in error
/// messages: "the ballot of step 12". Only one thread may use a Communicator at a time.
///
/// Every function throws RankError if the deadline passes, if another rank has failed or ended, or if two ranks
/// disagree about the size of a piece. After that the communicator cannot be used any more.
class Communicator : NonCopyable {
 public:
  virtual ~Communicator() = default;

  int rank() const { return rank_; }  ///< number of this rank, from 0
  int size() const { return size_; }  ///< number of ranks
  bool alone() const { return size_ == 1; }
  /// Returns the name of the engine: "alone", "threads", "mpi (Open MPI 4.1.4)".
  virtual std::string engine() const = 0;
  /// True if all ranks are threads of this process, which has one set of signal handlers.
  virtual bool shares_process() const { return false; }

  /// Sets the longest time that a call may wait. Default: $BINADE_RANK_DEADLINE in seconds, else 300 s.
  void set_deadline(std::chrono::duration<double> seconds) { deadline_ = seconds; }
  std::chrono::duration<double> deadline() const { return deadline_; }

  /// Sends and receives pieces. Pieces from one rank to another arrive in the order in which they were sent. Returns
  /// when all incoming pieces have arrived and the outgoing ones may be overwritten. A rank cannot send to itself.
  void exchange(std::span<const OutgoingPiece> outgoing, std::span<const IncomingPiece> incoming,
                std::string_view what);
  /// Returns `mine` of every rank, in the order of ranks. The sizes may differ.
  std::vector<Bytes> gather(std::span<const std::byte> mine, std::string_view what);
  /// Returns `mine` of rank `root`. `mine` of the other ranks is ignored.
  Bytes broadcast(std::span<const std::byte> mine, int root, std::string_view what);
  /// Returns when all ranks have called it.
  void barrier(std::string_view what);
  /// Tells the other ranks that this one ends, so that they do not wait for it until their deadline. Their errors
  /// contain `reason`. An engine may end the whole job at once.
  virtual void end_job(const std::string& reason) noexcept = 0;
  /// Call it on every rank before all of them throw the same exception. The engine then waits until all have ended, so
  /// that rank 0 can save first; after other exceptions it ends the job at once. Holds until the next exchange.
  void end_together() { ends_together_ = true; }
  bool ends_together() const { return ends_together_; }

  /// What a rank is doing.
  struct Activity {
    std::string what{};            ///< "the ballot of step 12", "micro-batch 5 of step 12"
    std::vector<int> waits_for{};  ///< the ranks from which it waits for bytes; empty: it does not wait
    double seconds = 0;            ///< since the activity began
    Wait wait = Wait::kUntilDeadline;
  };
  /// Returns what this rank is doing. Any thread may call it.
  Activity activity() const;
  /// Sets the activity of this rank until its next exchange. Does nothing if there are no other ranks.
  void begins(std::string_view what, Wait wait = Wait::kUntilDeadline);
  /// Returns the seconds since the last exchange ended, in which this rank did not wait for others.
  double seconds_of_own() const;
  /// Sets a function that describes what the other ranks are doing (run/rank_watch.h). If a deadline passes, the
  /// RankError begins with its result.
  void set_report(std::function<std::string()> report) { report_ = std::move(report); }
  /// Sets a function that is called when a deadline passes, with the ranks that have not answered. If it returns true,
  /// the call waits for another deadline(). Without such a function, the call throws.
  void set_patience(std::function<bool(std::span<const int> missing)> patience) { patience_ = std::move(patience); }

  /// Counters of the exchanges of this rank.
  struct Traffic {
    std::int64_t exchanges = 0;
    std::int64_t bytes_sent = 0;
    double seconds = 0;  ///< spent in exchanges, including the time of waiting
  };
  const Traffic& traffic() const { return traffic_; }

 protected:
  Communicator(int rank, int size);
  /// Implements exchange(). The ranks of all pieces are valid. If an answer is missing after deadline() seconds, it
  /// calls waits_longer(): if that returns true, it waits as long again, otherwise it throws RankError.
  virtual void do_exchange(std::span<const OutgoingPiece> outgoing, std::span<const IncomingPiece> incoming,
                           std::string_view what) = 0;
  /// Returns true if the call should go on waiting for these ranks.
  bool waits_longer(std::span<const int> missing) const { return patience_ && patience_(missing); }
  /// Returns the time that is deadline() from now.
  std::chrono::steady_clock::time_point end_of_wait() const;

 private:
  int rank_, size_;
  std::chrono::duration<double> deadline_;
  Traffic traffic_;
  bool ends_together_ = false;
  std::function<std::string()> report_{};
  std::function<bool(std::span<const int> missing)> patience_{};
  std::chrono::steady_clock::time_point last_exchange_;
  mutable std::mutex mutex_;  // guards the following
  std::string what_ = "its start";
  std::vector<int> waits_for_{};
  Wait wait_ = Wait::kUntilDeadline;
  std::chrono::steady_clock::time_point since_;
};

/// Returns the Communicator of a program with only one rank. It opens no engine.
std::shared_ptr<Communicator> alone();

/// Returns the text of a RankError: "rank 1 waited 30 s for ranks 2, 3 in the ballot of step 12".
std::string timeout_text(int rank, double seconds, std::span<const int> missing, std::string_view what);

/// Returns the memory of a vector's elements, for an OutgoingPiece.
template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(values));
}

}  // namespace binade
