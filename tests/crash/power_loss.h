#pragma once

#include <functional>

#include "tests/crash/experiments.h"
#include "tests/crash/memory_disk.h"

namespace binade::crash {

/// The states in which a power cut after the first `instant` events of a log may leave a disk.
///
/// The model gives fewer guarantees than ext4, XFS or Btrfs, so a promise that holds here holds there too:
///  * Synced changes are on the disk. Any part of the other changes may be missing.
///  * A write reaches the disk in pieces of 512 bytes, and any subset of them may arrive. The size of a file is written
///    separately, before or after its bytes. If the size grew and bytes are missing, they are zeros or old garbage.
///  * Changes of a folder's entries (create, rename, link, unlink, mkdir) that were not followed by an fsync of this
///    folder are there in any combination; a rename is one change. An fsync of a file does not sync its name.
class PowerCut {
 public:
  PowerCut(const MemoryDisk& disk, std::size_t instant);

  /// Returns the state that contains only synced changes.
  const DiskImage& least() const { return least_; }
  /// Calls `visit` for at most `most` of the states: for all of them if there are no more, otherwise for all
  /// combinations of folder entries (as many as fit) and a random sample of the rest.
  void each(std::size_t most, Draws& draws, const std::function<void(const DiskImage&)>& visit) const;

 private:
  struct Piece {
    std::uint64_t offset{};
    std::span<const std::byte> bytes{};
  };
  struct LooseFile {
    int node{};
    std::vector<Piece> pieces{};
    std::vector<std::uint64_t> sizes{};  // the sizes of the file since its last sync
  };
  /// The selected part of the changes that were not synced.
  struct Choice {
    std::uint64_t entries = 0;        // bit i: unsynced change i of entries is on the disk
    std::vector<std::size_t> data{};  // for each file with unsynced changes, its variant (see fill())
  };
  static std::size_t variants(const LooseFile& file) { return 6 * file.pieces.size() + 8; }
  static void fill(const LooseFile& file, std::size_t variant, Node& node);
  DiskImage build(const Choice& choice) const;

  DiskImage least_;
  std::vector<const DiskEvent*> loose_entries_;
  std::vector<LooseFile> loose_files_;
};

}  // namespace binade::crash
