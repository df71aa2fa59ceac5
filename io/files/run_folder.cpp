#include "binade/io/files/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "binade/core/error.h"

namespace binade::io {

namespace {

constexpr const char* kConfigName = "config.json";
constexpr std::uint64_t kConfigLimit = 16u << 20;

/// Creates one folder if it does not exist, and syncs its parent. Returns 0 or errno.
int create_one(FileOps& ops, const std::string& path) {
  int above = -1;
  const int error = ops.create_folder(path);
  const int open_error = ops.open_folder(split_path(path).first, above);
  const FileHandle handle(ops, open_error == 0 ? above : -1);
  if (error != 0 && error != EEXIST) {
    int there = -1;  // creating an existing folder may fail with an errno other than EEXIST, as on a read-only disk
    if (ops.open_folder(path, there) != 0) return error;
    ops.close(there);
    return 0;
  }
  // An existing folder may come from a process that died before it synced, so sync its parent. For an existing folder
  // errors are ignored, because the user may lack permission to open the parent.
  if (open_error != 0) return error == 0 ? open_error : 0;
  const int sync_error = ops.sync(above);
  return error == 0 ? sync_error : 0;
}

/// Creates a folder and its parents durably. Returns 0 or errno.
int create_all(FileOps& ops, const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    if (const int error = create_one(ops, path.substr(0, slash))) return error;
  return create_one(ops, path);
}

/// Throws StorageError for an errno after which it is unknown whether `path` holds a run, because a run must not begin
/// on top of another.
void check_readable(int error, const std::string& path) {
  check<StorageError>(error == 0 || error == ENOENT || error == ENOTDIR || error == ELOOP,
                      "run folder {}: cannot read its contents: {}", path, error_text(error));
}

/// Opens a folder; returns a closed handle if it does not exist.
FileHandle open_if_exists(FileOps& ops, const std::string& path) {
  int descriptor = -1;
  const int error = ops.open_folder(path, descriptor);
  check_readable(error, path);
  return {ops, error == 0 ? descriptor : -1};
}

bool exists(FileOps& ops, int folder, const std::string& path, const std::string& name) {
  FileStatus status;
  const int error = ops.status_of(folder, name, status);
  check_readable(error, path);
  return error == 0;
}

std::vector<std::string> checkpoint_names(FileOps& ops, const std::string& path) {
  int descriptor = -1;
  const int error = open_checkpoints(ops, path + "/checkpoints", descriptor);
  check_readable(error, path);
  if (error != 0) return {};
  const FileHandle checkpoints(ops, descriptor);
  std::vector<std::string> names;
  check_readable(ops.list(descriptor, names), path);
  return names;
}

bool contains_run(FileOps& ops, int folder, const std::string& path) {
  if (exists(ops, folder, path, kConfigName) || exists(ops, folder, path, "metrics.jsonl")) return true;
  return std::ranges::any_of(checkpoint_names(ops, path),
                             [](const std::string& n) { return step_of_file_name(n).has_value(); });
}

std::string config_in(FileOps& ops, int folder, const std::string& path) {
  std::vector<std::byte> bytes;
  const int error = read_file(ops, folder, kConfigName, kConfigLimit, bytes);
  check<NoCheckpointError>(error == 0, "run folder {}: cannot read {}: {}", path, kConfigName, error_text(error));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

RunFolder RunFolder::create(const std::string& path, FileOps& ops) {
  check<ArgumentError>(!path.empty(), "run folder: wanted a path, got an empty one");
  int error = create_all(ops, path);
  check<StorageError>(error == 0, "run folder {}: cannot create it: {}", path, error_text(error));
  FileHandle folder = open_folder(ops, path);
  if (contains_run(ops, folder.get(), path)) {
    check<LockError>(!RunLock::is_held(ops, folder.get()),
                     "run folder {}: another process is writing a run to it; use another --run", path);
    throw ArgumentError(fmt::format(
        "run folder {}: it already holds a run; continue it with --resume auto, or use another --run", path));
  }
  RunLock lock(ops, folder.get(), path);
  error = ops.create_folder(path + "/checkpoints");
  if (error == 0) error = ops.sync(folder.get());
  check<StorageError>(error == 0 || error == EEXIST, "run folder {}: cannot create checkpoints/ in it: {}", path,
                      error_text(error));
  return RunFolder(FilesBelow(path, std::move(folder), ops), std::move(lock));
}

RunFolder RunFolder::resume(const std::string& path, FileOps& ops) {
  int descriptor = -1;
  int error = ops.open_folder(path, descriptor);
  check<NoCheckpointError>(error == 0,
                           "run folder {}: {}; there is nothing to resume; --resume auto begins a run there", path,
                           error_text(error));
  FileHandle folder(ops, descriptor);
  check<NoCheckpointError>(contains_run(ops, descriptor, path),
                           "run folder {}: it holds no run; there is nothing to resume; --resume auto begins one",
                           path);
  RunLock lock(ops, descriptor, path);
  error = ops.create_folder(path + "/checkpoints");
  check<StorageError>(error == 0 || error == EEXIST, "run folder {}: cannot create checkpoints/ in it: {}", path,
                      error_text(error));
  return RunFolder(FilesBelow(path, std::move(folder), ops), std::move(lock));
}

bool RunFolder::holds_a_run(const std::string& path, FileOps& ops) {
  const FileHandle folder = open_if_exists(ops, path);
  return folder.open() && contains_run(ops, folder.get(), path);
}

bool RunFolder::holds_checkpoints(const std::string& path, FileOps& ops) {
  // Files that were set aside have the same prefix, and count too.
  return std::ranges::any_of(checkpoint_names(ops, path), [](const std::string& n) { return n.starts_with("ckpt-"); });
}

bool RunFolder::holds_config(const std::string& path, FileOps& ops) {
  const FileHandle folder = open_if_exists(ops, path);
  return folder.open() && exists(ops, folder.get(), path, kConfigName);
}

std::string RunFolder::next_free(const std::string& parent, const std::string& name, FileOps& ops) {
  int descriptor = -1;
  const int error = ops.open_folder(parent, descriptor);
  check<StorageError>(error == 0 || error == ENOENT, "folder of runs {}: cannot read its contents: {}", parent,
                      error_text(error));
  const FileHandle folder(ops, error == 0 ? descriptor : -1);
  for (int n = 1;; ++n) {
    const std::string candidate = fmt::format("{}-{}", name, n);
    if (!folder.open() || !exists(ops, descriptor, parent, candidate)) return parent + "/" + candidate;
  }
}

void RunFolder::check_not_moved() const {
  int descriptor = -1;
  const int error = files_.ops().open_folder(path(), descriptor);
  const FileHandle found(files_.ops(), error == 0 ? descriptor : -1);
  FileStatus opened, now;
  const bool compared = error == 0 && files_.ops().status(files_.descriptor(), opened) == 0 &&
                        files_.ops().status(descriptor, now) == 0;
  const bool gone = error == ENOENT || error == ENOTDIR || error == ELOOP ||
                    (compared && (opened.device != now.device || opened.inode != now.inode));
  check<StorageError>(!gone,
                      "run folder {}: it was moved, removed or replaced while a run wrote to it; what was committed is "
                      "in the moved folder: continue there with --resume auto",
                      path());
}

void RunFolder::write_config(const std::string& json) const { write_text(kConfigName, json); }

void RunFolder::write_text(const std::string& name, const std::string& text) const {
  const int error = write_file_atomically(files_.ops(), files_.descriptor(), name, bytes_of(text));
  check<StorageError>(error == 0, "run folder {}: cannot write {}: {}", path(), name, error_text(error));
}

std::string RunFolder::read_config() const { return config_in(files_.ops(), files_.descriptor(), path()); }

std::string read_run_config(const std::string& path, FileOps& ops) {
  int descriptor = -1;
  const int error = ops.open_folder(path, descriptor);
  check<NoCheckpointError>(error == 0, "run folder {}: {}", path, error_text(error));
  const FileHandle folder(ops, descriptor);
  return config_in(ops, descriptor, path);
}

namespace {

constexpr const char* kLockName = ".lock";

/// Returns the text that the process that holds the lock wrote to the lock file, "pid 1234"; empty if it has not yet.
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
