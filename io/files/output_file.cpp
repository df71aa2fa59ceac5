#include "binade/io/files/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <optional>

#include "binade/core/error.h"
#include "binade/io/files/file_ops.h"

namespace binade::io {
namespace {

/// Replaces or creates a regular file. `mode` is the mode of an existing file, which the new one gets. Returns 0 or
/// errno.
int replace(int folder, const std::string& name, std::optional<mode_t> mode, std::span<const std::byte> bytes) {
  FileOps& ops = FileOps::real();
  const std::string temporary = "." + name + ".tmp";
  ops.unlink(folder, temporary);  // may be left over from a process that died
  FileHandle file(ops, ::openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file.open()) return errno;
  if (mode && ::fchmod(file.get(), *mode) != 0) {
    const int error = errno;
    ops.unlink(folder, temporary);
    return error;
  }
  return write_and_rename(ops, folder, std::move(file), temporary, name, bytes);
}

/// Writes to a device or a FIFO. Returns 0 or errno.
int write_through(const std::string& path, std::span<const std::byte> bytes) {
  FileOps& ops = FileOps::real();
  // O_NONBLOCK, so that a FIFO without a reader is an error instead of an endless wait.
  FileHandle file(ops, ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.open() || ::fcntl(file.get(), F_SETFL, 0) != 0) return errno;
  const int error = write_all(ops, file.get(), bytes);
  const int close_error = file.close();
  return error != 0 ? error : close_error;
}

}  // namespace

void write_output_file(const std::string& path, std::span<const std::byte> bytes) {
  struct stat there {};
  const int missing = ::stat(path.c_str(), &there) == 0 ? 0 : errno;
  check<StorageError>(missing == 0 || missing == ENOENT, "{}: cannot be written: {}", path, error_text(missing));
  check<StorageError>(missing != 0 || !S_ISDIR(there.st_mode), "{}: cannot be written: it is a folder, wanted a file",
                      path);
  int error = 0;
  if (missing == 0 && !S_ISREG(there.st_mode)) {
    error = write_through(path, bytes);
  } else {
    std::error_code ignored;
    const std::string target = missing == 0 ? std::filesystem::canonical(path, ignored).string() : path;
    const auto [folder_path, name] = split_path(target.empty() ? path : target);
    const FileHandle folder = open_folder(FileOps::real(), folder_path);
    error = replace(folder.get(), name, missing == 0 ? std::optional(there.st_mode & 07777) : std::nullopt, bytes);
  }
  check<StorageError>(error == 0, "{}: cannot be written: {}{}", path, error_text(error),
                      error == ENXIO ? "; no process reads from it: start the reader first" : "");
}

}  // namespace binade::io
