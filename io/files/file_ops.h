#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace binade::io {

/// Kind, size and identity of a file.
struct FileStatus {
  bool regular = false;
  bool folder = false;
  std::uint64_t bytes = 0;
  std::uint64_t device = 0, inode = 0;  ///< identity of the file, independent of its name
};

/// The file operations that checkpoints use, one system call each, so that a test can replace the disk: let the n-th
/// call fail, or record all calls. Names are relative to an open folder, so that renaming the folder has no effect. No
/// call follows a symbolic link in its last component; every descriptor is close-on-exec.
///
/// Every call returns 0 or an errno value. Thread-safe.
class FileOps {
 public:
  virtual ~FileOps() = default;
  /// Returns the operations of the operating system.
  static FileOps& real();

  virtual int open_folder(const std::string& path, int& folder) = 0;
  virtual int create_folder(const std::string& path) = 0;  ///< one level, mode 0777 less umask; EEXIST if it exists
  /// Opens a folder inside an open folder; returns ENOTDIR for a symbolic link.
  virtual int open_folder_in(int folder, const std::string& name, int& opened) = 0;
  virtual int create_folder_in(int folder, const std::string& name) = 0;
  /// Creates a file for writing, mode 0600. Returns EEXIST if the name exists, whatever kind of file it is.
  virtual int create_exclusive(int folder, const std::string& name, int& file) = 0;
  /// Opens a file for reading; never blocks on a FIFO.
  virtual int open_read(int folder, const std::string& name, int& file) = 0;
  /// Opens a file for reading and writing, and creates it if it is missing.
  virtual int open_or_create(int folder, const std::string& name, int& file) = 0;
  /// May write fewer bytes than given; the caller repeats after EINTR.
  virtual int write(int file, std::span<const std::byte> bytes, std::size_t& written) = 0;
  /// May read fewer bytes than requested; sets `got` to 0 at the end of the file.
  virtual int read_at(int file, std::uint64_t offset, std::span<std::byte> bytes, std::size_t& got) = 0;
  virtual int truncate(int file, std::uint64_t bytes) = 0;
  /// Flushes a file or a folder to the disk. After a failure the file's contents are undefined.
  virtual int sync(int file) = 0;
  virtual int close(int file) = 0;
  /// Asks the system to drop cached pages, so that the next read comes from the disk. Best effort.
  virtual int drop_cache(int file) = 0;
  virtual int status(int file, FileStatus& status) = 0;
  virtual int status_of(int folder, const std::string& name, FileStatus& status) = 0;
  /// Returns EEXIST if `to` exists; EINVAL, ENOSYS or ENOTSUP if the file system does not support it.
  virtual int rename_no_replace(int folder, const std::string& from, const std::string& to) = 0;
  virtual int rename_over(int folder, const std::string& from, const std::string& to) = 0;
  virtual int link(int folder, const std::string& from, const std::string& to) = 0;
  virtual int unlink(int folder, const std::string& name) = 0;
  /// Lists all names except "." and "..", sorted.
  virtual int list(int folder, std::vector<std::string>& names) = 0;
  /// Locks the open file until the process ends. Returns EWOULDBLOCK if another process holds the lock.
  virtual int lock_exclusive(int file) = 0;
};

/// Owns a descriptor and closes it.
class FileHandle {
 public:
  FileHandle() = default;
  FileHandle(FileOps& ops, int descriptor) : ops_(&ops), descriptor_(descriptor) {}
  ~FileHandle() { close(); }
  FileHandle(FileHandle&& other) noexcept : ops_(other.ops_), descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    if (this != &other) {
      close();
      ops_ = other.ops_;
      descriptor_ = std::exchange(other.descriptor_, -1);
    }
    return *this;
  }
  int get() const { return descriptor_; }
  bool open() const { return descriptor_ >= 0; }
  /// Returns 0 or errno; closing twice is harmless.
  int close() { return descriptor_ < 0 ? 0 : ops_->close(std::exchange(descriptor_, -1)); }

 private:
  FileOps* ops_ = nullptr;
  int descriptor_ = -1;
};

/// A file or folder, or the errno value of the failure to open it.
struct Opened {
  int error = 0;
  FileHandle handle{};
};
/// Opens a file or folder by a member of FileOps: try_open(ops, &FileOps::open_read, folder, name).
template <class... Parameters, class... Arguments>
Opened try_open(FileOps& ops, int (FileOps::*member)(Parameters...), const Arguments&... arguments) {
  int descriptor = -1;
  const int error = (ops.*member)(arguments..., descriptor);
  return {error, error == 0 ? FileHandle(ops, descriptor) : FileHandle()};
}

/// Writes all bytes, in several calls if writes are short or interrupted. Returns 0 or errno.
int write_all(FileOps& ops, int file, std::span<const std::byte> bytes);
/// Fills `bytes` from `offset` on. Returns 0 or errno; EIO if the file is shorter.
int read_exactly(FileOps& ops, int file, std::uint64_t offset, std::span<std::byte> bytes);

/// Reads a regular file. Returns 0 or errno: EFBIG if it is larger than `limit`, EISDIR or EINVAL if it is not regular,
/// EIO if its size changes during the read.
int read_file(FileOps& ops, int folder, const std::string& name, std::uint64_t limit, std::vector<std::byte>& bytes);

/// Replaces the file `name` by one with the contents `bytes`. At every instant, the old or the new contents exist.
/// Returns 0 or errno.
int write_file_atomically(FileOps& ops, int folder, const std::string& name, std::span<const std::byte> bytes);
/// Second half of an atomic write: writes `bytes` to `file`, which was just created as `temporary`, syncs it, renames
/// it over `name` and syncs the folder; removes `temporary` on failure. Returns 0 or errno.
int write_and_rename(FileOps& ops, int folder, FileHandle file, const std::string& temporary, const std::string& name,
                     std::span<const std::byte> bytes);

/// Determines whether a power cut during move_without_replacing() may lose the file under both names.
enum class Moving { kMayLose, kSafely };

/// Renames without replacing; uses link and unlink if the file system does not support that. Returns 0 or errno.
int move_without_replacing(FileOps& ops, int folder, const std::string& from, const std::string& to,
                           Moving safely = Moving::kSafely);

/// Returns the text of an errno value for messages: "No space left on device (ENOSPC)".
std::string error_text(int error);

/// Splits a path into folder and name: "a/b/c" -> "a/b", "c"; "c" -> ".", "c".
std::pair<std::string, std::string> split_path(const std::string& path);

/// Opens a folder. Throws StorageError that names it.
FileHandle open_folder(FileOps& ops, const std::string& path);

/// Opens the folder of checkpoints, "RUN/checkpoints". Symbolic links in the path of the run are followed, but
/// `checkpoints` itself must not be a link.
Opened open_checkpoints(FileOps& ops, const std::string& path);

/// Returns the name of a step's checkpoint file: "ckpt-000000000500.h5".
std::string checkpoint_file_name(std::int64_t step);
/// Returns the step in the name of a checkpoint file; std::nullopt if the name is not exactly of that form.
std::optional<std::int64_t> step_of_file_name(std::string_view name);

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace binade::io
