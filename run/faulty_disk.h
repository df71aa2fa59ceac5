#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <span>

#include "binade/io/files/forwarding_file_ops.h"

namespace binade::amp {

/// File operations that fail with ENOSPC while set_full(true).
class FaultyDisk final : public io::ForwardingFileOps {
 public:
  explicit FaultyDisk(io::FileOps& disk) : ForwardingFileOps(disk) {}
  void set_full(bool full) { full_ = full; }
  int write(int file, std::span<const std::byte> bytes, std::size_t& written) override {
    return full_ ? ENOSPC : ForwardingFileOps::write(file, bytes, written);
  }

 private:
  std::atomic<bool> full_ = false;
};

}  // namespace binade::amp
