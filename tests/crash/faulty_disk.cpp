#include "tests/crash/faulty_disk.h"

namespace binade::crash {

using io::FileStatus;

int FaultyDisk::strikes(bool can_be_short) {
  short_ = false;
  if (!armed_) return 0;
  const int call = calls_++;
  if (call < fault_.call || (call > fault_.call && !fault_.lasts)) return 0;
  if (fault_.error == 0 && !can_be_short) return 0;
  fired_ = true;
  short_ = fault_.error == 0;
  return fault_.error;
}

int FaultyDisk::open_folder(const std::string& path, int& folder) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::open_folder(path, folder);
}
int FaultyDisk::create_folder(const std::string& path) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::create_folder(path);
}
int FaultyDisk::create_exclusive(int folder, const std::string& name, int& file) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::create_exclusive(folder, name, file);
}
int FaultyDisk::open_read(int folder, const std::string& name, int& file) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::open_read(folder, name, file);
}
int FaultyDisk::open_or_create(int folder, const std::string& name, int& file) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::open_or_create(folder, name, file);
}
int FaultyDisk::write(int file, std::span<const std::byte> bytes, std::size_t& written) {
  written = 0;
  if (const int error = strikes(true)) return error;
  return ForwardingFileOps::write(file, short_ ? bytes.first((bytes.size() + 1) / 2) : bytes, written);
}
int FaultyDisk::read_at(int file, std::uint64_t offset, std::span<std::byte> bytes, std::size_t& got) {
  got = 0;
  if (const int error = strikes(true)) return error;
  return ForwardingFileOps::read_at(file, offset, short_ ? bytes.first((bytes.size() + 1) / 2) : bytes, got);
}
int FaultyDisk::truncate(int file, std::uint64_t bytes) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::truncate(file, bytes);
}
int FaultyDisk::sync(int file) {
  if (const int error = strikes()) {
    doubtful_.insert(disk_.node_of(file));
    return error;
  }
  return ForwardingFileOps::sync(file);
}
int FaultyDisk::close(int file) {
  const int error = strikes();  // the descriptor is gone in any case
  ForwardingFileOps::close(file);
  return error;
}
int FaultyDisk::drop_cache(int file) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::drop_cache(file);
}
int FaultyDisk::status(int file, FileStatus& status) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::status(file, status);
}
int FaultyDisk::status_of(int folder, const std::string& name, FileStatus& status) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::status_of(folder, name, status);
}
int FaultyDisk::rename_no_replace(int folder, const std::string& from, const std::string& to) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::rename_no_replace(folder, from, to);
}
int FaultyDisk::rename_over(int folder, const std::string& from, const std::string& to) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::rename_over(folder, from, to);
}
int FaultyDisk::link(int folder, const std::string& from, const std::string& to) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::link(folder, from, to);
}
int FaultyDisk::unlink(int folder, const std::string& name) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::unlink(folder, name);
}
int FaultyDisk::list(int folder, std::vector<std::string>& names) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::list(folder, names);
}
int FaultyDisk::lock_exclusive(int file) {
  if (const int error = strikes()) return error;
  return ForwardingFileOps::lock_exclusive(file);
}

}  // namespace binade::crash
