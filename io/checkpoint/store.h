#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "binade/core/state_dict.h"
#include "binade/io/checkpoint/find.h"
#include "binade/io/checkpoint/manifest.h"
#include "binade/io/files/file_ops.h"

namespace binade::io {

struct StoreOptions {
  int keep = 3;         ///< the newest files that stay, at least 1; see below for what stays beside them
  int good_after = 50;  ///< clean steps after which a checkpoint is good
  Warn warn = warn_on_stderr;
  FileOps* ops = &FileOps::real();
  std::uint64_t largest_file = kLargestFile;
  std::chrono::milliseconds pause{50};  ///< before the second attempt at a save, twice that before the third
};

struct SaveRequest {
  std::int64_t step = 0;
  StateDict state{};  ///< tensors that nobody else writes to (cloned()); the writer copies them from their device
  std::string state_hash{};
  std::optional<Score> score{};  ///< the score that decides which checkpoint is best
  /// An existing checkpoint of this step belongs to the same run and holds less: the new one replaces it instead of
  /// setting it aside. At every instant one of the two exists.
  bool supersedes = false;
  /// Called by the writer before it touches the folder, with what the checkpoint counts on (that a log is on the disk).
  /// When it throws nothing is written. May be left out.
  std::function<void()> before{};
  /// Makes `state_hash` where that is empty. Called by the writer, so that no step waits for it. May be left out.
  std::function<std::string(const StateDict&)> hash{};
};

/// How a save went. `problem` is empty when it was committed.
struct SaveOutcome {
  std::int64_t step = 0;
  bool committed = false;
  std::string file{};
  std::string problem{};
  std::uint64_t bytes = 0;  ///< size, if committed
  double seconds = 0;       ///< from the moment the writer takes the request to its end
  std::exception_ptr
      error{};  ///< the exception that save() would throw: NumericError, StorageError, OutOfMemoryError, ArgumentError
};

/// The checkpoints of one run: "ckpt-000000000500.h5" beside MANIFEST. A checkpoint exists whole and verified or it
/// does not exist. One writer thread, at most one save in flight. A save goes: all numbers finite; a temporary file
/// made for it alone, mode 0600; written; synced; read back and compared; renamed without replacing; folder synced.
/// Only then is it committed: MANIFEST is replaced, and what the ring does not keep is deleted.
///
/// Kept: the newest `keep`, the newest good one, the oldest one after it (the next to become good) and the best. Set
/// aside: damaged ones as "….corrupt-1", of which the newest 8 are kept; those whose name gives another step than their
/// content as "….misnamed-1", and those that a rollback left behind as "….abandoned-1". The last two kinds are never
/// deleted.
///
/// The caller holds the run's lock. Step numbers, not clocks, order everything. Calls from one thread.
class CheckpointStore {
 public:
  /// Opens the folder (which must exist), deletes what a dead writer left half-made, and makes MANIFEST and files
  /// agree: files that MANIFEST does not know are verified and taken in. Throws StorageError.
  CheckpointStore(const std::string& folder, StoreOptions options = {});
  ~CheckpointStore();  ///< waits for the save in flight
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// Hands a save to the writer thread and returns at once; false, and nothing happens, while one is in flight. What
  /// goes wrong from here on is told by finished(), a lack of memory too.
  bool start_save(SaveRequest request);
  bool saving() const;
  /// Outcomes since the last call, in order.
  std::vector<SaveOutcome> finished();
  /// Waits for the save in flight.
  void wait();
  /// Saves and waits; throws what went wrong. A checkpoint of this step with the same bytes is enough.
  void save(SaveRequest request);

  /// The newest checkpoint that proves whole. Those that do not are named in a warning each and renamed "….corrupt-1",
  /// or "….misnamed-1" if only the name is wrong; those that the system cannot read are named and left in place. Throws
  /// NoCheckpointError when there is none, CheckpointError when the newest is whole and of a format this version cannot
  /// read.
  LoadedCheckpoint load_newest();

  /// Where a run may go back to: the newest good checkpoint of a step in (after, newest], or, where none is good, the
  /// newest verified one. Nothing when there is none that can be read.
  std::optional<LoadedCheckpoint> load_to_go_back(std::int64_t newest, std::int64_t after);
  /// The run went back to `step`: what was saved later is set aside under another name, never deleted. When this
  /// returns no power cut brings it back. Throws StorageError when something later could not be moved: a resume may
  /// find it, or `step`.
  void abandon_after(std::int64_t step);

  /// Tells the ladder that a step went through without incident, or not. MANIFEST follows with the next save.
  void step_was_clean(std::int64_t step);
  void step_had_trouble(std::int64_t step);

  std::vector<ManifestEntry> entries() const;

 private:
  void take_stock();
  void write_loop();
  void commit(SaveRequest& request, SaveOutcome& outcome) noexcept;
  void carry_out(SaveRequest& request, SaveOutcome& outcome);
  void write_and_publish(const CheckpointImage& image, const std::string& name, bool supersedes);
  int forget_in_manifest(const std::string& name);
  int take_the_place(const std::string& temporary, const std::string& name);
  void sync_folder(const std::string& name);
  void write_temporary(const CheckpointImage& image, const std::string& temporary);
  void compare_with_disk(const CheckpointImage& image, const std::string& name);
  bool same_on_disk(const CheckpointImage& image, const std::string& name);
  void record(ManifestEntry entry);
  int replace_manifest(const Manifest& manifest);
  void write_manifest(const Manifest& manifest);
  int move_aside(const std::string& name, const std::string& why, std::string& aside);
  int next_aside(const std::string& name, const std::string& why);
  void prune_corrupt();
  std::string set_aside(const std::string& name, const std::string& why);

  StoreOptions options_;
  std::string path_;
  FileHandle folder_;
  std::set<std::string> listed_on_disk_;  // by MANIFEST, as far as known; one thread at a time writes in the folder

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Manifest manifest_;
  std::optional<SaveRequest> request_;
  bool busy_ = false;  // a request waits or is being written
  bool closing_ = false;
  std::list<SaveOutcome> expected_, finished_;  // expected: of the request; the writer needs no memory to report it
  std::thread writer_;
};

/// Which entries the ring keeps, by the rule above.
std::vector<bool> kept_by_ring(const std::vector<ManifestEntry>& entries, int keep);

}  // namespace binade::io
