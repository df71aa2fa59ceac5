#pragma once

#include <string>

#include "binade/io/files/file_ops.h"

namespace binade::io {

/// Keeps two processes from writing to one run folder: locks the file `.lock` in it. The system releases the lock when
/// the process ends in any way. The file stays; it holds the owner's pid for messages only.
class RunLock {
 public:
  /// `path` is for messages. Throws LockError that names the process that holds the lock, or StorageError.
  RunLock(FileOps& ops, int folder, const std::string& path);

  /// True if a process holds the lock. Read-only.
  static bool is_held(FileOps& ops, int folder);

 private:
  FileHandle file_;
};

}  // namespace binade::io
