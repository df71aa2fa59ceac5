#pragma once

#include <functional>

#include "tests/crash/experiments.h"
#include "tests/crash/memory_disk.h"

namespace binade::crash {

/// What a power cut may leave on a disk when it strikes after the first `instant` events of a log.
///
/// The model is weaker than what ext4, XFS or Btrfs promise, so that what holds here holds there:
///  * what was synced is there; of everything else any part may be missing;
///  * a write reaches the disk in pieces of 512 bytes, in any order, any of them or none; the size of a file travels by
///    itself, before or after its bytes; where the size grew and the bytes did not come, zeros or old garbage lie;
///  * changes of a folder's entries (create, rename, link, unlink, mkdir) that were not synced by an fsync of this very
///    folder are there or not, each for itself, in any combination; a rename is one change. An fsync of a file says
///    nothing about its name.
class PowerCut {
 public:
  PowerCut(const MemoryDisk& disk, std::size_t instant);

  /// Only what was synced.
  const DiskImage& least() const { return least_; }
  /// Calls `visit` with at most `most` of the states: all of them where there are so few, else all combinations of
  /// folder entries as far as they go and a random sample of the rest.
  void each(std::size_t most, Draws& draws, const std::function<void(const DiskImage&)>& visit) const;

 private:
  struct Piece {
    std::uint64_t offset{};
    std::span<const std::byte> bytes{};
  };
  struct LooseFile {
    int node{};
    std::vector<Piece> pieces{};
    std::vector<std::uint64_t> sizes{};  // sizes that the file has had since its last sync
  };
  /// Which part of what was not synced is there.
  struct Choice {
    std::uint64_t entries = 0;        // a bit for each loose change
    std::vector<std::size_t> data{};  // for each loose file, see fill()
  };
  static std::size_t variants(const LooseFile& file) { return 6 * file.pieces.size() + 8; }
  static void fill(const LooseFile& file, std::size_t variant, Node& node);
  DiskImage build(const Choice& choice) const;

  DiskImage least_;
  std::vector<const DiskEvent*> loose_entries_;
  std::vector<LooseFile> loose_files_;
};

}  // namespace binade::crash
