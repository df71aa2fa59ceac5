#pragma once

#include <string>

#include "binade/io/files/file_ops.h"

namespace binade::io {

/// Keeps two processes from writing one run folder: a lock on the file `.lock` in it, which the system drops when the
/// process dies, however it dies. The file stays; it holds the owner's pid for messages only.
class RunLock {
 public:
  /// `path` names the folder in messages. Throws LockError naming the holder, or StorageError.
  RunLock(FileOps& ops, int folder, const std::string& path);

  /// Whether somebody holds the lock now; touches nothing. For a folder that may not be written to.
  static bool is_held(FileOps& ops, int folder);

 private:
  FileHandle file_;
};

}  // namespace binade::io
