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

/// A rank failed, does not answer, or is in another state than this one.
struct RankError : ErrorWithCode<52> {
  using ErrorWithCode::ErrorWithCode;
};

using Bytes = std::vector<std::byte>;

/// Bytes that this rank sends to another one.
struct OutgoingPiece {
  int to = 0;
  std::span<const std::byte> bytes{};
};
/// Where bytes from another rank are stored. Its size must be that of the piece that the other rank sends.
struct IncomingPiece {
  int from = 0;
  std::span<std::byte> bytes{};
};

/// How long the other ranks wait for work of this rank.
enum class Wait {
  kUntilDeadline,  ///< until their deadline
  kWhileAlive,     ///< beyond it, as long as this rank gives signs of life: for an evaluation, or a save on a slow disk
};

/// The connection of one rank with the others. Ranks are copies of one program that make a training step together
/// (docs/ranks.md). An engine (alone, threads, MPI) moves bytes and never computes with them: Binade adds numbers
/// itself, in an order that does not depend on the number of ranks (core/rank_tree.h).
///
/// All ranks make the same calls in the same order. Each call has a deadline; `what` says what the rank waits for, in
/// the error of a rank that waited in vain: "the ballot of step 12". Used by one thread at a time.
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
  /// when all incoming pieces are there and the outgoing ones may be overwritten. No piece may be for this rank itself.
  void exchange(std::span<const OutgoingPiece> outgoing, std::span<const IncomingPiece> incoming,
                std::string_view what);
  /// Returns the bytes of every rank, in the order of ranks. Their sizes may differ.
  std::vector<Bytes> gather(std::span<const std::byte> mine, std::string_view what);
  /// Returns the bytes of rank `root`. Those of other ranks are ignored.
  Bytes broadcast(std::span<const std::byte> mine, int root, std::string_view what);
  /// Returns when all ranks have called it.
  void barrier(std::string_view what);
  /// Tells the other ranks that this one ends, so that they do not wait for it until their deadline. `reason` is in
  /// their errors. An engine may end the whole job at once.
  virtual void end_job(const std::string& reason) noexcept = 0;
  /// Call it on every rank before all of them throw the same exception. The engine then waits until all have ended, so
  /// that rank 0 can save first; after other exceptions it ends the job at once. Holds until the next exchange.
  void end_together() { ends_together_ = true; }
  bool ends_together() const { return ends_together_; }

  /// What a rank does at the moment.
  struct Activity {
    std::string what{};            ///< "the ballot of step 12", "micro-batch 5 of step 12"
    std::vector<int> waits_for{};  ///< the ranks from which it waits for bytes; empty: it does not wait
    double seconds = 0;            ///< since it began
    Wait wait = Wait::kUntilDeadline;
  };
  /// Returns what this rank does. May be called by any thread.
  Activity activity() const;
  /// Says what this rank does from now on until its next exchange. Costs nothing without other ranks.
  void begins(std::string_view what, Wait wait = Wait::kUntilDeadline);
  /// Returns the seconds since the last exchange ended: those that this rank did not wait.
  double seconds_of_own() const;
  /// Sets a function that says what the other ranks do (run/rank_watch.h). If a deadline passes, its text is put before
  /// that of the RankError.
  void set_report(std::function<std::string()> report) { report_ = std::move(report); }
  /// Sets a function that gets the ranks that have not answered when a deadline passes. If it returns true, the call
  /// waits for as long again. Default: it does not.
  void set_patience(std::function<bool(std::span<const int> missing)> patience) { patience_ = std::move(patience); }

  /// What this rank has sent, and how long it waited.
  struct Traffic {
    std::int64_t exchanges = 0;
    std::int64_t bytes_sent = 0;
    double seconds = 0;  ///< in exchanges, waiting included
  };
  const Traffic& traffic() const { return traffic_; }

 protected:
  Communicator(int rank, int size);
  /// Does what exchange() says. All pieces have a valid rank. After deadline() seconds without an answer, and as many
  /// seconds after each true that waits_longer() returns, it throws RankError.
  virtual void move(std::span<const OutgoingPiece> outgoing, std::span<const IncomingPiece> incoming,
                    std::string_view what) = 0;
  /// Returns true if the call shall go on waiting for these ranks.
  bool waits_longer(std::span<const int> missing) const { return patience_ && patience_(missing); }
  /// Returns the time of a deadline that begins now.
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

/// Returns the connection of a rank without others. It opens no engine.
std::shared_ptr<Communicator> alone();

/// Returns the text of a RankError: "rank 1 waited 30 s for ranks 2, 3 in the ballot of step 12".
std::string waited_in_vain(int rank, double seconds, std::span<const int> missing, std::string_view what);

/// Returns the bytes of a value, for pieces.
template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(values));
}

}  // namespace binade
