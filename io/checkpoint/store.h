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

/// Settings of a CheckpointStore.
struct StoreOptions {
  int keep = 3;  ///< number of newest checkpoints to keep, at least 1; see CheckpointStore for the others that stay
  int good_after = 50;         ///< number of steps without incident after which a checkpoint is good
  Warn warn = warn_on_stderr;  ///< receives warnings for the user
  FileOps* ops = &FileOps::real();
  std::uint64_t largest_file = kLargestFile;
  std::chrono::milliseconds pause{
      50};  ///< pause before the second attempt at a save; before the third it is twice as long
};

/// A checkpoint to be saved.
struct SaveRequest {
  std::int64_t step = 0;
  StateDict state{};  ///< must not change during the save (use cloned()); the writer copies tensors to the host
  std::string state_hash{};
  std::optional<Score> score{};  ///< the score that decides which checkpoint is best
  /// True if an existing checkpoint of this step should be replaced instead of renamed, because this run wrote it and
  /// it contains less (it may have been saved before the evaluation of the step). At every instant one of the two
  /// exists.
  bool supersedes = false;
  /// The writer calls this before it changes the folder, for work that must be done before the checkpoint exists (for
  /// example, to write a log to the disk). If it throws, no file is written. Optional.
  std::function<void()> before{};
  /// Computes `state_hash` if that is empty. The writer calls it, so that no step waits for it. Optional.
  std::function<std::string(const StateDict&)> hash{};
};

/// The result of a save. `problem` is empty if the save was committed.
struct SaveOutcome {
  std::int64_t step = 0;
  bool committed = false;
  std::string file{};
  std::string problem{};
  std::uint64_t bytes = 0;  ///< size of the file, if committed
  double seconds = 0;       ///< duration of the save in the writer
  /// The exception that save() would throw: NumericError, StorageError, OutOfMemoryError or ArgumentError.
  std::exception_ptr error{};
};

/// The checkpoints of one run: files like "ckpt-000000000500.h5", and MANIFEST. A checkpoint is either complete and
/// verified or does not exist. One thread writes; at most one save is in flight. A save checks that all numbers are
/// finite, writes a new temporary file (mode 0600), syncs it, reads it back and compares it, renames it without
/// replacing another file, and syncs the folder. Then it is committed: MANIFEST is replaced, and files that the ring
/// does not keep are deleted.
///
/// The ring keeps the newest `keep` checkpoints, the newest good one, the oldest verified one after that (the next to
/// become good) and the best. These files are renamed: damaged files to "….corrupt-1" (the newest 8 are kept), files
/// whose name and content give different steps to "….misnamed-1", and files that a rollback abandoned to
/// "….abandoned-1". The last two kinds are never deleted.
///
/// The caller must hold the run's lock, and call from one thread. "Newest" means the highest step number, not the
/// latest time stamp.
class CheckpointStore {
 public:
  /// Opens the folder (which must exist), deletes temporary files of a writer that died, and reconciles MANIFEST with
  /// the files: unlisted files are verified and added. Throws StorageError.
  CheckpointStore(const std::string& folder, StoreOptions options = {});
  ~CheckpointStore();  ///< waits for the save in flight
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// Passes a save to the writer thread and returns at once; returns false and does nothing if a save is in flight.
  /// Errors of the save, out of memory included, are reported by finished().
  bool start_save(SaveRequest request);
  /// True if a save is in flight.
  bool saving() const;
  /// Returns the outcomes of the saves that ended since the last call, in order.
  std::vector<SaveOutcome> finished();
  /// Waits for the save in flight.
  void wait();
  /// Saves and waits; throws the error of the save. If the step already has a checkpoint with the same bytes, the save
  /// succeeds.
  void save(SaveRequest request);

  /// Loads the newest intact checkpoint. Damaged checkpoints are renamed to "….corrupt-1", and checkpoints whose name
  /// alone is wrong to "….misnamed-1"; checkpoints that the system cannot read stay in place. Each causes a warning.
  /// Throws NoCheckpointError if there is no intact checkpoint, CheckpointError if the newest is intact but has a
  /// format that this version cannot read.
  LoadedCheckpoint load_newest();

  /// Loads the checkpoint for a rollback: the newest good one of a step in (after, newest] or, if none is good, the
  /// newest verified one. Returns std::nullopt if none can be read.
  std::optional<LoadedCheckpoint> load_for_rollback(std::int64_t newest, std::int64_t after);
  [[deprecated("use load_for_rollback()")]] std::optional<LoadedCheckpoint> load_to_go_back(std::int64_t newest,
                                                                                            std::int64_t after) {
    return load_for_rollback(newest, after);
  }
  /// Renames all checkpoints after `step`, to which the run was rolled back. When it returns, the new names are on the
  /// disk. Throws StorageError if a checkpoint could not be renamed, because a resume might load it.
  void abandon_after(std::int64_t step);

  /// Record a step without or with an incident, which decides when checkpoints become good. MANIFEST is updated by the
  /// next save.
  void step_was_clean(std::int64_t step);
  void step_had_trouble(std::int64_t step);

  /// Returns the entries of MANIFEST, ascending by step.
  std::vector<ManifestEntry> entries() const;

 private:
  /// Compares MANIFEST with the files in the folder, and corrects it.
  void reconcile();
  /// The loop of the writer thread.
  void write_loop();
  /// Writes a checkpoint, and stores the result or the error in `outcome`.
  void commit(SaveRequest& request, SaveOutcome& outcome) noexcept;
  /// Encodes a state, writes it as a checkpoint and records it in MANIFEST.
  void encode_and_commit(SaveRequest& request, SaveOutcome& outcome);
  /// Writes an image to a temporary file, and gives it the name `name`. An existing file of that name is overwritten if
  /// `supersedes`; otherwise it gets a second name first.
  void write_and_publish(const CheckpointImage& image, const std::string& name, bool supersedes);
  /// Removes the entries for which is_gone(entry) is true, and returns a copy of the rest, to be written to MANIFEST.
  template <class F>
  Manifest remove_entries(const F& is_gone);
  int remove_from_manifest(const std::string& name);
  template <class F>
  int with_name_aside(const std::string& name, const std::string& why, std::string& aside, const F& move);
  /// Keeps the existing file `name` under a second name, and renames the temporary file to `name`.
  int set_aside_and_rename(const std::string& temporary, const std::string& name);
  /// Syncs the folder. Throws StorageError that names the checkpoint.
  void sync_folder(const std::string& name);
  /// Writes an image to a new file, syncs it and reads it back.
  void write_temporary(const CheckpointImage& image, const std::string& temporary);
  /// Throws StorageError unless the file on the disk equals the image.
  void compare_with_disk(const CheckpointImage& image, const std::string& name);
  /// Returns true if the file on the disk equals the image.
  bool same_on_disk(const CheckpointImage& image, const std::string& name);
  /// Adds an entry to MANIFEST, and deletes checkpoints that are no longer needed.
  void record(ManifestEntry entry);
  /// Replaces MANIFEST on the disk. Returns 0 or errno.
  int replace_manifest(const Manifest& manifest);
  /// Replaces MANIFEST on the disk. Reports a failure as a warning.
  void write_manifest(const Manifest& manifest);
  /// Renames the file `name` to `aside`, a new name such as NAME.corrupt-1. Returns 0 or errno.
  int move_aside(const std::string& name, const std::string& why, std::string& aside);
  /// Returns the number of the next free name of the form NAME.WHY-N.
  int next_aside(const std::string& name, const std::string& why);
  /// Deletes all damaged files but the newest ones.
  void prune_corrupt();
  /// Renames a file as move_aside() does. Returns the new name or, as text, the error.
  std::string set_aside(const std::string& name, const std::string& why);

  StoreOptions options_;
  std::string path_;
  FileHandle folder_;
  std::set<std::string> listed_on_disk_;  // files in the latest MANIFEST on disk, and in one that failed to replace it

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  Manifest manifest_;
  std::optional<SaveRequest> request_;
  bool busy_ = false;                           // true while a request waits or is being written
  bool closing_ = false;                        // true if the writer thread must end
  std::list<SaveOutcome> expected_, finished_;  // nodes allocated before the save, to report a lack of memory
  std::thread writer_;
};

/// Returns for each entry whether the ring keeps it (see CheckpointStore).
std::vector<bool> kept_by_ring(const std::vector<ManifestEntry>& entries, int keep);

}  // namespace binade::io
