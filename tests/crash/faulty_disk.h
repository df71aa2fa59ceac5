#pragma once

#include <set>

#include "io/forwarding_file_ops.h"
#include "tests/crash/memory_disk.h"

namespace binade::crash {

/// Which call fails, and how.
struct Fault {
  int error = 0;       ///< errno; 0: a read or write that does half of what was asked
  int call = 0;        ///< the first call that fails, counted from 0
  bool lasts = false;  ///< and all calls after it
};

/// A disk whose n-th call fails. Every call counts, those that only look too.
class FaultyDisk final : public io::ForwardingFileOps {
 public:
  explicit FaultyDisk(MemoryDisk& disk) : ForwardingFileOps(disk), disk_(disk) {}

  void plan(const Fault& fault) { fault_ = fault, armed_ = true, calls_ = 0, fired_ = false; }
  void mend() { armed_ = false; }
  bool fired() const { return fired_; }
  /// Nodes that a sync failed for: what they hold is not known any more.
  const std::set<int>& doubtful() const { return doubtful_; }

  int open_folder(const std::string& path, int& folder) override;
  int create_folder(const std::string& path) override;
  int create_exclusive(int folder, const std::string& name, int& file) override;
  int open_read(int folder, const std::string& name, int& file) override;
  int open_or_create(int folder, const std::string& name, int& file) override;
  int write(int file, std::span<const std::byte> bytes, std::size_t& written) override;
  int read_at(int file, std::uint64_t offset, std::span<std::byte> bytes, std::size_t& got) override;
  int truncate(int file, std::uint64_t bytes) override;
  int sync(int file) override;
  int close(int file) override;
  int drop_cache(int file) override;
  int status(int file, io::FileStatus& status) override;
  int status_of(int folder, const std::string& name, io::FileStatus& status) override;
  int rename_no_replace(int folder, const std::string& from, const std::string& to) override;
  int rename_over(int folder, const std::string& from, const std::string& to) override;
  int link(int folder, const std::string& from, const std::string& to) override;
  int unlink(int folder, const std::string& name) override;
  int list(int folder, std::vector<std::string>& names) override;
  int lock_exclusive(int file) override;

 private:
  /// The errno of this call, 0 when it goes through.
  int strikes(bool can_be_short = false);

  MemoryDisk& disk_;
  Fault fault_;
  bool armed_ = false, fired_ = false, short_ = false;
  int calls_ = 0;
  std::set<int> doubtful_;
};

}  // namespace binade::crash
