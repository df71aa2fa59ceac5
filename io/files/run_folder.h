#pragma once

#include <string>

#include "binade/io/files/files_below.h"

namespace binade::io {

/// Keeps two processes from writing to one run folder: locks the file `.lock` in it. The system releases the lock when
/// the process ends in any way. The file stays; it contains the owner's process id, for messages only.
class RunLock {
 public:
  /// `path` is for messages. Throws LockError that names the process that holds the lock, or StorageError.
  RunLock(FileOps& ops, int folder, const std::string& path);

  /// True if a process holds the lock. Read-only.
  static bool is_held(FileOps& ops, int folder);

 private:
  FileHandle file_;
};

/// The folder of one run, locked while the object exists:
///
///     config.json  metrics.jsonl  timing.jsonl  headroom.jsonl  events.jsonl  drills.jsonl  events.out.tfevents.*
///     plans.txt  checkpoints/  incidents/  samples/
///
/// Movable. Its paths begin with the path that the caller gave.
class RunFolder {
 public:
  /// Begins a run: creates the folder and its parents. Throws ArgumentError if it already holds a run (nothing is
  /// changed), LockError if another process writes to it, StorageError if it cannot be written to.
  static RunFolder create(const std::string& path, FileOps& ops = FileOps::real());
  /// Continues a run. Throws NoCheckpointError if the folder is missing or holds no run (nothing is created),
  /// LockError, StorageError.
  static RunFolder resume(const std::string& path, FileOps& ops = FileOps::real());
  /// Returns the first of "runs/NAME-1", "runs/NAME-2", … that does not exist. If another process creates it first,
  /// create() throws. Throws StorageError if the parent folder cannot be read.
  static std::string next_free(const std::string& parent, const std::string& name, FileOps& ops = FileOps::real());

  /// True if `path` holds a run. Read-only. Throws StorageError on a system error.
  static bool holds_a_run(const std::string& path, FileOps& ops = FileOps::real());

  /// True if a checkpoint was ever committed at `path`, even if it is damaged now. Read-only. Throws StorageError on a
  /// system error.
  static bool holds_checkpoints(const std::string& path, FileOps& ops = FileOps::real());
  /// True if `path` has a config.json. Read-only. Throws StorageError on a system error.
  static bool holds_config(const std::string& path, FileOps& ops = FileOps::real());

  const std::string& path() const { return files_.path(); }
  /// Access to the files in the folder.
  const FilesBelow& files() const { return files_; }
  std::string checkpoints() const { return files_.path_of("checkpoints"); }

  /// Throws StorageError if the folder was moved, removed or replaced since it was opened: files written by path would
  /// go to another folder.
  void check_not_moved() const;
  bool holds_checkpoints() const { return holds_checkpoints(path(), files_.ops()); }
  /// Replaces config.json atomically. Throws StorageError.
  void write_config(const std::string& json) const;
  /// Replaces another file of the run atomically. Throws StorageError.
  void write_text(const std::string& name, const std::string& text) const;
  /// Reads config.json. Throws NoCheckpointError if it is missing, larger than 16 MiB or cannot be read.
  std::string read_config() const;

 private:
  RunFolder(FilesBelow files, RunLock lock) : files_(std::move(files)), lock_(std::move(lock)) {}

  FilesBelow files_;
  RunLock lock_;
};

/// Reads config.json of a run that another process may have locked, for `eval`, `sample` and tools. Throws as
/// RunFolder::read_config().
std::string read_run_config(const std::string& path, FileOps& ops = FileOps::real());

}  // namespace binade::io
