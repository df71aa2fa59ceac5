#pragma once

#include <set>

#include "binade/io/files/forwarding_file_ops.h"
#include "tests/crash/memory_disk.h"

namespace binade::crash {

/// Which call fails, and how.
struct Fault {
  int error = 0;       ///< errno; 0: a read or write transfers half of the bytes
  int call = 0;        ///< the first call that fails, counted from 0
  bool lasts = false;  ///< true: all later calls fail too
};

/// A disk whose n-th call fails. All calls count, including those that only read.
class FaultyDisk final : public io::ForwardingFileOps {
 public:
  explicit FaultyDisk(MemoryDisk& disk) : ForwardingFileOps(disk), disk_(disk) {}

  void plan(const Fault& fault) { fault_ = fault, armed_ = true, calls_ = 0, fired_ = false; }
  void mend() { armed_ = false; }
  bool armed() const { return armed_; }
  bool fired() const { return fired_; }
  /// Returns true if the planned call was reached.
  bool reached() const { return calls_ > fault_.call; }
  /// The nodes for which a sync failed. Their content on the disk is unknown.
  const std::set<int>& doubtful() const { return doubtful_; }

  int write(int file, std::span<const std::byte> bytes, std::size_t& written) override;
  int read_at(int file, std::uint64_t offset, std::span<std::byte> bytes, std::size_t& got) override;
  int sync(int file) override;
  int close(int file) override;

 private:
  int around(const std::function<int()>& call) override;
  /// Returns the errno of this call; 0 if it succeeds.
  int strikes(bool can_be_short = false);

  MemoryDisk& disk_;
  Fault fault_;
  bool armed_ = false, fired_ = false, short_ = false;
  int calls_ = 0;
  std::set<int> doubtful_;
};

}  // namespace binade::crash
