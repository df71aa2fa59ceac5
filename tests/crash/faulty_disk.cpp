#include "tests/crash/faulty_disk.h"

namespace binade::crash {

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

int FaultyDisk::around(const std::function<int()>& call) {
  const int error = strikes();
  return error != 0 ? error : call();
}

int FaultyDisk::write(int file, std::span<const std::byte> bytes, std::size_t& written) {
  written = 0;
  if (const int error = strikes(true)) return error;
  return disk_.write(file, short_ ? bytes.first((bytes.size() + 1) / 2) : bytes, written);
}

int FaultyDisk::read_at(int file, std::uint64_t offset, std::span<std::byte> bytes, std::size_t& got) {
  got = 0;
  if (const int error = strikes(true)) return error;
  return disk_.read_at(file, offset, short_ ? bytes.first((bytes.size() + 1) / 2) : bytes, got);
}

int FaultyDisk::sync(int file) {
  const int error = ForwardingFileOps::sync(file);
  if (error != 0) doubtful_.insert(disk_.node_of(file));
  return error;
}

int FaultyDisk::close(int file) {
  const int error = strikes();  // the descriptor is closed in any case
  disk_.close(file);
  return error;
}

}  // namespace binade::crash
