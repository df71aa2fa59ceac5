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

struct FileStatus {
  bool regular = false;
  bool folder = false;
  std::uint64_t bytes = 0;
  std::uint64_t device = 0, inode = 0;  ///< of the file itself, whatever its name is
};

/// The file operations that checkpoints are made of, one system call each, so that a test can stand in for the disk:
/// fail the n-th call, or record all of them. Names are relative to an open folder, which stays the same folder when
/// somebody renames it. No call follows a symbolic link in its last component; every descriptor is close-on-exec.
///
/// Every call returns 0 or the errno value. Thread-safe.
class FileOps {
 public:
  virtual ~FileOps() = default;
  /// The operating system's.
  static FileOps& real();

  virtual int open_folder(const std::string& path, int& folder) = 0;
  virtual int create_folder(const std::string& path) = 0;  ///< one level, mode 0777 less the umask; EEXIST when there
  /// Opens a folder inside another folder in the same way; ENOTDIR for a symbolic link.
  virtual int open_folder_in(int folder, const std::string& name, int& opened) = 0;
  virtual int create_folder_in(int folder, const std::string& name) = 0;
  /// For writing, mode 0600. EEXIST when the name is taken, whatever by.
  virtual int create_exclusive(int folder, const std::string& name, int& file) = 0;
  /// For reading; never blocks on a FIFO.
  virtual int open_read(int folder, const std::string& name, int& file) = 0;
  /// For reading and writing, made when missing.
  virtual int open_or_create(int folder, const std::string& name, int& file) = 0;
  /// May write fewer bytes than asked; EINTR is the caller's to repeat.
  virtual int write(int file, std::span<const std::byte> bytes, std::size_t& written) = 0;
  /// May read fewer bytes than asked; none at the end of the file.
  virtual int read_at(int file, std::uint64_t offset, std::span<std::byte> bytes, std::size_t& got) = 0;
  virtual int truncate(int file, std::uint64_t bytes) = 0;
  /// Forces a file's or a folder's contents to the disk. After a failure the file must not be trusted.
  virtual int sync(int file) = 0;
  virtual int close(int file) = 0;
  /// Asks the system to forget cached pages, so that the next read comes from the disk. Best effort.
  virtual int drop_cache(int file) = 0;
  virtual int status(int file, FileStatus& status) = 0;
  virtual int status_of(int folder, const std::string& name, FileStatus& status) = 0;
  /// EEXIST when `to` is taken; EINVAL, ENOSYS or ENOTSUP where the file system cannot.
  virtual int rename_no_replace(int folder, const std::string& from, const std::string& to) = 0;
  virtual int rename_over(int folder, const std::string& from, const std::string& to) = 0;
  virtual int link(int folder, const std::string& from, const std::string& to) = 0;
  virtual int unlink(int folder, const std::string& name) = 0;
  /// All names but "." and "..", sorted.
  virtual int list(int folder, std::vector<std::string>& names) = 0;
  /// A lock on the open file that dies with the process. EWOULDBLOCK when another holds it.
  virtual int lock_exclusive(int file) = 0;
};

/// A descriptor that is closed with its owner.
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
  /// 0 or errno; closing twice is harmless.
  int close() { return descriptor_ < 0 ? 0 : ops_->close(std::exchange(descriptor_, -1)); }

 private:
  FileOps* ops_ = nullptr;
  int descriptor_ = -1;
};

/// Loops over short writes and interruptions. 0 or errno.
int write_all(FileOps& ops, int file, std::span<const std::byte> bytes);
/// Reads exactly `bytes`; EIO when the file ends before.
int read_exactly(FileOps& ops, int file, std::uint64_t offset, std::span<std::byte> bytes);

/// A whole regular file. 0 or errno: EFBIG when it is larger than `limit`, EISDIR or EINVAL when it is not regular, EIO
/// when it changes size meanwhile.
int read_file(FileOps& ops, int folder, const std::string& name, std::uint64_t limit, std::vector<std::byte>& bytes);

/// Replaces `name` by a file holding `bytes`: a temporary file beside it, synced, renamed over, folder synced. Either
/// the old or the new contents are there whatever happens. 0 or errno.
int write_file_atomically(FileOps& ops, int folder, const std::string& name, std::span<const std::byte> bytes);

/// Whether a power cut amid a move may take the file, both its names.
enum class Moving { kMayLose, kSafely };

/// rename_no_replace, or link and unlink where the file system cannot. 0 or errno.
int move_without_replacing(FileOps& ops, int folder, const std::string& from, const std::string& to,
                           Moving safely = Moving::kSafely);

/// "No space left on device (ENOSPC)": for messages.
std::string error_text(int error);

/// "a/b/c" -> "a/b", "c"; "c" -> ".", "c".
std::pair<std::string, std::string> split_path(const std::string& path);

/// Opens a folder; throws StorageError naming it.
FileHandle open_folder(FileOps& ops, const std::string& path);

/// Opens the folder of checkpoints, "RUN/checkpoints". Symbolic links on the way to the run are followed; a link in
/// place of `checkpoints` is not. Returns 0 or errno.
int open_checkpoints(FileOps& ops, const std::string& path, int& folder);

/// Returns the name of a step's checkpoint file: "ckpt-000000000500.h5".
std::string checkpoint_file_name(std::int64_t step);
/// The inverse; returns std::nullopt for any other name.
std::optional<std::int64_t> step_of_file_name(std::string_view name);

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace binade::io
