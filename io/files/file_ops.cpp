#include "binade/io/files/file_ops.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "binade/core/error.h"

namespace binade::io {

namespace {

#if !defined(RENAME_NOREPLACE)
constexpr unsigned kRenameNoReplace = 1;
#else
constexpr unsigned kRenameNoReplace = RENAME_NOREPLACE;
#endif

int open_at(int folder, const std::string& name, int flags, int& file) {
  file = ::openat(folder, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600);
  return file < 0 ? errno : 0;
}

FileStatus status_from(const struct stat& s) {
  return {S_ISREG(s.st_mode), S_ISDIR(s.st_mode), static_cast<std::uint64_t>(s.st_size), s.st_dev, s.st_ino};
}

class RealFileOps final : public FileOps {
 public:
  int open_folder(const std::string& path, int& folder) override {
    folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder < 0 ? errno : 0;
  }
  int create_folder(const std::string& path) override { return ::mkdir(path.c_str(), 0777) == 0 ? 0 : errno; }
  int open_folder_in(int folder, const std::string& name, int& opened) override {
    opened = ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return opened < 0 ? errno : 0;
  }
  int create_folder_in(int folder, const std::string& name) override {
    return ::mkdirat(folder, name.c_str(), 0777) == 0 ? 0 : errno;
  }
  int create_exclusive(int folder, const std::string& name, int& file) override {
    return open_at(folder, name, O_WRONLY | O_CREAT | O_EXCL, file);
  }
  int open_read(int folder, const std::string& name, int& file) override {
    return open_at(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, file);
  }
  int open_or_create(int folder, const std::string& name, int& file) override {
    return open_at(folder, name, O_RDWR | O_CREAT | O_NONBLOCK | O_NOCTTY, file);
  }
  int write(int file, std::span<const std::byte> bytes, std::size_t& written) override {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    written = n < 0 ? 0 : static_cast<std::size_t>(n);
    return n < 0 ? errno : 0;
  }
  int read_at(int file, std::uint64_t offset, std::span<std::byte> bytes, std::size_t& got) override {
    const ssize_t n = ::pread(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    got = n < 0 ? 0 : static_cast<std::size_t>(n);
    return n < 0 ? errno : 0;
  }
  int truncate(int file, std::uint64_t bytes) override {
    return ::ftruncate(file, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  }
  int sync(int file) override { return ::fsync(file) == 0 ? 0 : errno; }
  int close(int file) override { return ::close(file) == 0 ? 0 : errno; }
  int drop_cache(int file) override { return ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED); }
  int status(int file, FileStatus& status) override {
    struct stat s {};
    if (::fstat(file, &s) != 0) return errno;
    status = status_from(s);
    return 0;
  }
  int status_of(int folder, const std::string& name, FileStatus& status) override {
    struct stat s {};
    if (::fstatat(folder, name.c_str(), &s, AT_SYMLINK_NOFOLLOW) != 0) return errno;
    status = status_from(s);
    return 0;
  }
  int rename_no_replace(int folder, const std::string& from, const std::string& to) override {
    return ::syscall(SYS_renameat2, folder, from.c_str(), folder, to.c_str(), kRenameNoReplace) == 0 ? 0 : errno;
  }
  int rename_over(int folder, const std::string& from, const std::string& to) override {
    return ::renameat(folder, from.c_str(), folder, to.c_str()) == 0 ? 0 : errno;
  }
  int link(int folder, const std::string& from, const std::string& to) override {
    return ::linkat(folder, from.c_str(), folder, to.c_str(), 0) == 0 ? 0 : errno;
  }
  int unlink(int folder, const std::string& name) override {
    return ::unlinkat(folder, name.c_str(), 0) == 0 ? 0 : errno;
  }
  int list(int folder, std::vector<std::string>& names) override {
    names.clear();
    // fdopendir() takes over its descriptor and reads from the current offset, so it gets a new descriptor.
    const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0) return errno;
    DIR* stream = ::fdopendir(copy);
    if (stream == nullptr) {
      const int error = errno;
      ::close(copy);
      return error;
    }
    const std::unique_ptr<DIR, int (*)(DIR*)> closed(stream, ::closedir);
    errno = 0;
    while (const dirent* entry = ::readdir(stream)) {
      if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
        names.emplace_back(entry->d_name);
      errno = 0;
    }
    const int error = errno;
    std::sort(names.begin(), names.end());
    return error;
  }
  int lock_exclusive(int file) override { return ::flock(file, LOCK_EX | LOCK_NB) == 0 ? 0 : errno; }
};

/// Transfers `size` bytes by repeated calls of call(done, count, moved), which moves up to `count` bytes from offset
/// `done` on and sets `moved` to their number. Returns 0 or errno.
template <class Call>
int transfer(std::size_t size, const Call& call) {
  constexpr std::size_t kChunk = std::size_t{64} << 20;  // some kernels transfer at most 2 GiB at once
  constexpr int kInterruptions = 1000;                   // in a row; more are a fault of the system, not signals
  int interrupted = 0;
  for (std::size_t done = 0; done < size;) {
    std::size_t moved = 0;
    const int error = call(done, std::min(size - done, kChunk), moved);
    if (error == EINTR && ++interrupted < kInterruptions) continue;
    if (error != 0) return error;
    if (moved == 0) return EIO;  // end of the file, or a device that would make this an endless loop
    interrupted = 0;
    done += moved;
  }
  return 0;
}

}  // namespace

FileOps& FileOps::real() {
  static RealFileOps ops;
  return ops;
}

int write_all(FileOps& ops, int file, std::span<const std::byte> bytes) {
  return transfer(bytes.size(), [&](std::size_t done, std::size_t count, std::size_t& moved) {
    return ops.write(file, bytes.subspan(done, count), moved);
  });
}

int read_exactly(FileOps& ops, int file, std::uint64_t offset, std::span<std::byte> bytes) {
  return transfer(bytes.size(), [&](std::size_t done, std::size_t count, std::size_t& moved) {
    return ops.read_at(file, offset + done, bytes.subspan(done, count), moved);
  });
}

int read_file(FileOps& ops, int folder, const std::string& name, std::uint64_t limit, std::vector<std::byte>& bytes) {
  const auto [open_error, file] = try_open(ops, &FileOps::open_read, folder, name);
  if (open_error != 0) return open_error;
  FileStatus before;
  if (const int error = ops.status(file.get(), before)) return error;
  if (!before.regular) return before.folder ? EISDIR : EINVAL;
  if (before.bytes > limit) return EFBIG;
  bytes.resize(before.bytes);
  if (const int error = read_exactly(ops, file.get(), 0, bytes)) return error;
  FileStatus after;
  if (const int error = ops.status(file.get(), after)) return error;
  return after.bytes == before.bytes ? 0 : EIO;
}

int write_file_atomically(FileOps& ops, int folder, const std::string& name, std::span<const std::byte> bytes) {
  const std::string temporary = "." + name + ".tmp";
  Opened file = try_open(ops, &FileOps::create_exclusive, folder, temporary);
  if (file.error == EEXIST) {  // left by a process that died
    if (const int error = ops.unlink(folder, temporary)) return error;
    file = try_open(ops, &FileOps::create_exclusive, folder, temporary);
  }
  if (file.error != 0) return file.error;
  return write_and_rename(ops, folder, std::move(file.handle), temporary, name, bytes);
}

int write_and_rename(FileOps& ops, int folder, FileHandle file, const std::string& temporary, const std::string& name,
                     std::span<const std::byte> bytes) {
  int error = write_all(ops, file.get(), bytes);
  if (error == 0) error = ops.sync(file.get());
  const int close_error = file.close();
  if (error == 0) error = close_error;
  if (error == 0) error = ops.rename_over(folder, temporary, name);
  if (error != 0) {
    ops.unlink(folder, temporary);
    return error;
  }
  return ops.sync(folder);
}

int move_without_replacing(FileOps& ops, int folder, const std::string& from, const std::string& to, Moving safely) {
  const int error = ops.rename_no_replace(folder, from, to);
  if (error != EINVAL && error != ENOSYS && error != ENOTSUP) return error;
  if (const int link_error = ops.link(folder, from, to)) return link_error;
  if (safely == Moving::kSafely)
    if (const int sync_error = ops.sync(folder)) return sync_error;
  return ops.unlink(folder, from);
}

std::string error_text(int error) {
  const char* name = ::strerrorname_np(error);
  return fmt::format("{} ({})", ::strerrordesc_np(error) != nullptr ? ::strerrordesc_np(error) : "unknown error",
                     name != nullptr ? name : std::to_string(error).c_str());
}

std::pair<std::string, std::string> split_path(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

Opened open_checkpoints(FileOps& ops, const std::string& path) {
  const std::size_t last = path.find_last_not_of('/');
  const auto [run, name] = split_path(last == path.npos ? path : path.substr(0, last + 1));
  Opened above = try_open(ops, &FileOps::open_folder, run);
  return above.error != 0 ? std::move(above) : try_open(ops, &FileOps::open_folder_in, above.handle.get(), name);
}

std::string checkpoint_file_name(std::int64_t step) { return fmt::format("ckpt-{:012}.h5", step); }

std::optional<std::int64_t> step_of_file_name(std::string_view name) {
  constexpr std::string_view kPrefix = "ckpt-", kSuffix = ".h5";
  constexpr std::size_t kDigits = 12;
  if (name.size() != kPrefix.size() + kDigits + kSuffix.size() || !name.starts_with(kPrefix) ||
      !name.ends_with(kSuffix))
    return std::nullopt;
  const std::string digits(name.substr(kPrefix.size(), kDigits));
  if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  return std::stoll(digits);
}

FileHandle open_folder(FileOps& ops, const std::string& path) {
  auto [error, folder] = try_open(ops, &FileOps::open_folder, path);
  check<StorageError>(error == 0, "open folder {}: {}; wanted a folder that can be read and written", path,
                      error_text(error));
  return std::move(folder);
}

}  // namespace binade::io
