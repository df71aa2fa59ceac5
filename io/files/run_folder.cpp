#include "binade/io/files/run_folder.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "binade/core/error.h"
#include "binade/core/program_flags.h"

namespace binade::io {

namespace {

/// Names for error texts: the command-line flag of this program (core/program_flags.h), or the C++ member or function,
/// that sets the run folder, or that begins or resumes a run.
std::string folder_setting() { return flag_or("run", "", "RunOptions::folder"); }
std::string resume_call() { return flag_or("resume", "auto", "TrainingRun::resume_if_possible()"); }

constexpr const char* kConfigName = "config.json";
constexpr std::uint64_t kConfigLimit = 16u << 20;

/// Creates one folder if it does not exist, and syncs its parent. Returns 0 or errno.
int create_one(FileOps& ops, const std::string& path) {
  const int error = ops.create_folder(path);
  const auto [open_error, above] = try_open(ops, &FileOps::open_folder, split_path(path).first);
  // Creating an existing folder may fail with an errno other than EEXIST, as on a read-only disk.
  if (error != 0 && error != EEXIST) return try_open(ops, &FileOps::open_folder, path).error == 0 ? 0 : error;
  // An existing folder may come from a process that died before it synced, so sync its parent. For an existing folder
  // errors are ignored, because the user may lack permission to open the parent.
  if (open_error != 0) return error == 0 ? open_error : 0;
  const int sync_error = ops.sync(above.get());
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
  auto [error, folder] = try_open(ops, &FileOps::open_folder, path);
  check_readable(error, path);
  return std::move(folder);
}

bool exists(FileOps& ops, int folder, const std::string& path, const std::string& name) {
  FileStatus status;
  const int error = ops.status_of(folder, name, status);
  check_readable(error, path);
  return error == 0;
}

std::vector<std::string> checkpoint_names(FileOps& ops, const std::string& path) {
  const auto [error, checkpoints] = open_checkpoints(ops, path + "/checkpoints");
  check_readable(error, path);
  std::vector<std::string> names;
  if (error == 0) check_readable(ops.list(checkpoints.get(), names), path);
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

RunFolder RunFolder::create(const std::string& path, FileOps& ops) {
  check<ArgumentError>(!path.empty(), "run folder: wanted a path, got an empty one");
  int error = create_all(ops, path);
  check<StorageError>(error == 0, "run folder {}: cannot create it: {}", path, error_text(error));
  FileHandle folder = open_folder(ops, path);
  if (contains_run(ops, folder.get(), path)) {
    check<LockError>(!RunLock::is_held(ops, folder.get()),
                     "run folder {}: another process is writing a run to it; use another {}", path, folder_setting());
    throw ArgumentError(fmt::format("run folder {}: it already holds a run; continue it with {}, or use another {}",
                                    path, resume_call(), folder_setting()));
  }
  RunLock lock(ops, folder.get(), path);
  error = ops.create_folder(path + "/checkpoints");
  if (error == 0) error = ops.sync(folder.get());
  check<StorageError>(error == 0 || error == EEXIST, "run folder {}: cannot create checkpoints/ in it: {}", path,
                      error_text(error));
  return RunFolder(FilesBelow(path, std::move(folder), ops), std::move(lock));
}

RunFolder RunFolder::resume(const std::string& path, FileOps& ops) {
  auto [open_error, folder] = try_open(ops, &FileOps::open_folder, path);
  check<NoCheckpointError>(open_error == 0, "run folder {}: {}; there is nothing to resume; {} begins a run there",
                           path, error_text(open_error), resume_call());
  check<NoCheckpointError>(contains_run(ops, folder.get(), path),
                           "run folder {}: it holds no run; there is nothing to resume; {} begins one", path,
                           resume_call());
  RunLock lock(ops, folder.get(), path);
  const int error = ops.create_folder(path + "/checkpoints");
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
  const auto [error, folder] = try_open(ops, &FileOps::open_folder, parent);
  check<StorageError>(error == 0 || error == ENOENT, "folder of runs {}: cannot read its contents: {}", parent,
                      error_text(error));
  for (int n = 1;; ++n) {
    const std::string candidate = fmt::format("{}-{}", name, n);
    if (!folder.open() || !exists(ops, folder.get(), parent, candidate)) return parent + "/" + candidate;
  }
}

void RunFolder::check_not_moved() const {
  const auto [error, found] = try_open(files_.ops(), &FileOps::open_folder, path());
  FileStatus opened, now;
  const bool compared = error == 0 && files_.ops().status(files_.descriptor(), opened) == 0 &&
                        files_.ops().status(found.get(), now) == 0;
  const bool gone = error == ENOENT || error == ENOTDIR || error == ELOOP ||
                    (compared && (opened.device != now.device || opened.inode != now.inode));
  check<StorageError>(!gone,
                      "run folder {}: it was moved, removed or replaced while a run wrote to it; what was committed is "
                      "in the moved folder: continue there with {}",
                      path(), resume_call());
}

void RunFolder::write_config(const std::string& json) const { write_text(kConfigName, json); }

void RunFolder::write_text(const std::string& name, const std::string& text) const {
  const int error = write_file_atomically(files_.ops(), files_.descriptor(), name, bytes_of(text));
  check<StorageError>(error == 0, "run folder {}: cannot write {}: {}", path(), name, error_text(error));
}

std::string RunFolder::read_config() const { return config_in(files_.ops(), files_.descriptor(), path()); }

std::string read_run_config(const std::string& path, FileOps& ops) {
  const auto [error, folder] = try_open(ops, &FileOps::open_folder, path);
  check<NoCheckpointError>(error == 0, "run folder {}: {}", path, error_text(error));
  return config_in(ops, folder.get(), path);
}

RunLock::RunLock(FileOps& ops, int folder, const std::string& path) {
  Opened opened = try_open(ops, &FileOps::open_or_create, folder, kLockName);
  check<StorageError>(opened.error == 0, "run folder {}: cannot write to it: {}", path, error_text(opened.error));
  file_ = std::move(opened.handle);
  int error = ops.lock_exclusive(file_.get());
  if (error == EWOULDBLOCK) {
    const std::string who = holder(ops, file_.get());
    throw LockError(
        fmt::format("run folder {}: another process{} is writing to it; wait for it, end it, or use another {}", path,
                    who.empty() ? "" : " (" + who + ")", folder_setting()));
  }
  check<StorageError>(error == 0, "run folder {}: its file system cannot lock a file: {}; use a local one", path,
                      error_text(error));
  error = ops.truncate(file_.get(), 0);
  if (error == 0) error = write_all(ops, file_.get(), bytes_of(fmt::format("pid {}\n", ::getpid())));
  check<StorageError>(error == 0, "run folder {}: cannot write to it: {}", path, error_text(error));
}

bool RunLock::is_held(FileOps& ops, int folder) {
  const auto [error, file] = try_open(ops, &FileOps::open_read, folder, kLockName);
  return error == 0 && ops.lock_exclusive(file.get()) == EWOULDBLOCK;
}

}  // namespace binade::io
