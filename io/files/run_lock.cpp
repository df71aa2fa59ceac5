#include "binade/io/files/run_lock.h"

#include <unistd.h>

#include <array>
#include <cerrno>

#include "binade/core/error.h"

namespace binade::io {

namespace {

constexpr const char* kLockName = ".lock";

/// Returns the text that the holder wrote: "pid 1234"; empty if it has not written it yet.
std::string holder(FileOps& ops, int file) {
  std::array<std::byte, 64> bytes{};
  std::size_t got = 0;
  if (ops.read_at(file, 0, bytes, got) != 0) return "";
  std::string text;
  for (std::size_t i = 0; i < got; ++i) {
    const char c = static_cast<char>(bytes[i]);
    if (c < ' ' || c > '~') break;
    text += c;
  }
  return text;
}

}  // namespace

RunLock::RunLock(FileOps& ops, int folder, const std::string& path) {
  int descriptor = -1;
  int error = ops.open_or_create(folder, kLockName, descriptor);
  check<StorageError>(error == 0, "run folder {}: cannot write to it: {}", path, error_text(error));
  file_ = FileHandle(ops, descriptor);
  error = ops.lock_exclusive(descriptor);
  if (error == EWOULDBLOCK) {
    const std::string who = holder(ops, descriptor);
    throw LockError(
        fmt::format("run folder {}: another process{} is writing to it; wait for it, end it, or use another --run",
                    path, who.empty() ? "" : " (" + who + ")"));
  }
  check<StorageError>(error == 0, "run folder {}: its file system cannot lock a file: {}; use a local one", path,
                      error_text(error));
  error = ops.truncate(descriptor, 0);
  if (error == 0) error = write_all(ops, descriptor, bytes_of(fmt::format("pid {}\n", ::getpid())));
  check<StorageError>(error == 0, "run folder {}: cannot write to it: {}", path, error_text(error));
}

bool RunLock::is_held(FileOps& ops, int folder) {
  int descriptor = -1;
  if (ops.open_read(folder, kLockName, descriptor) != 0) return false;
  const FileHandle file(ops, descriptor);
  return ops.lock_exclusive(descriptor) == EWOULDBLOCK;
}

}  // namespace binade::io
