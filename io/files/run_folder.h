#pragma once

#include <memory>
#include <string>

#include "binade/io/files/files_below.h"
#include "binade/io/files/run_lock.h"

namespace binade::io {

/// The folder of one run, locked for as long as the object lives:
///
///     config.json  metrics.jsonl  timing.jsonl  headroom.jsonl  events.jsonl  drills.jsonl  events.out.tfevents.*
///     plans.txt  checkpoints/  incidents/  samples/
///
/// Movable. Its paths are what the caller gave, with the names appended.
class RunFolder {
 public:
  /// A run that begins: makes the folder and those above it. Throws ArgumentError when it holds a run already (nothing
  /// is touched), LockError when another process writes to it, StorageError when it cannot be written to.
  static RunFolder create(const std::string& path, FileOps& ops = FileOps::real());
  /// A run that goes on. Throws NoCheckpointError when the folder is missing or holds no run (nothing is made),
  /// LockError, StorageError.
  static RunFolder resume(const std::string& path, FileOps& ops = FileOps::real());
  /// "runs/NAME-1", "runs/NAME-2", …: the first that is not there. Another process may take it first; create() then
  /// says so. Throws StorageError when the system does not let it look.
  static std::string next_free(const std::string& parent, const std::string& name, FileOps& ops = FileOps::real());

  /// Whether somebody began a run at `path`. Only looks. Throws StorageError when the system does not let it.
  static bool holds_a_run(const std::string& path, FileOps& ops = FileOps::real());

  /// Whether a checkpoint was ever committed at `path`, even if it is damaged now; and whether it has a config.json.
  /// Both only read. They throw StorageError on a system error.
  static bool holds_checkpoints(const std::string& path, FileOps& ops = FileOps::real());
  static bool holds_config(const std::string& path, FileOps& ops = FileOps::real());

  const std::string& path() const { return files_.path(); }
  /// The files in it.
  const FilesBelow& files() const { return files_; }
  std::string checkpoints() const { return files_.path_of("checkpoints"); }

  /// Throws StorageError when the path leads to another folder by now, or to none: what is written by names from here
  /// on would land in somebody else's.
  void must_be_where_it_was() const;
  bool holds_checkpoints() const { return holds_checkpoints(path(), files_.ops()); }
  /// Replaces config.json as a whole: the old or the new text is there whatever happens. Throws StorageError.
  void write_config(const std::string& json) const;
  /// The same for another file of the run.
  void write_text(const std::string& name, const std::string& text) const;
  /// Throws NoCheckpointError when it is missing, larger than 16 MiB or cannot be read.
  std::string read_config() const;

 private:
  RunFolder(FilesBelow files, RunLock lock) : files_(std::move(files)), lock_(std::move(lock)) {}

  FilesBelow files_;
  RunLock lock_;
};

/// config.json of a run that somebody else may hold, for `eval`, `sample` and tools. Throws as
/// RunFolder::read_config().
std::string read_run_config(const std::string& path, FileOps& ops = FileOps::real());

}  // namespace binade::io
