#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "binade/io/files/file_ops.h"

namespace binade::crash {

using Bytes = std::vector<std::byte>;

/// A file or a folder. Folders name nodes by their index in the image.
struct Node {
  bool folder = false;
  Bytes bytes{};
  std::map<std::string, int> entries{};
};
/// Everything on a disk. Node 0 is the root folder "/".
using DiskImage = std::vector<Node>;

/// Returns the node of a path, or -1.
int node_at(const DiskImage& image, const std::string& path);

/// One change of a disk. A power cut may apply any subset of the changes that were not synced.
struct DiskEvent {
  enum class Kind {
    kData,     ///< `bytes` are written at `offset` of file `node`, which grows if necessary
    kSize,     ///< file `node` gets the size `offset`
    kEntries,  ///< `entries` of folder `node` change together, as in a rename
    kSync      ///< all earlier changes of `node` become permanent
  };
  static constexpr int kGone = -1;

  Kind kind = Kind::kSync;
  int node = 0;
  std::uint64_t offset = 0;
  Bytes bytes{};
  std::vector<std::pair<std::string, int>> entries{};
};

/// Optional features of a file system.
struct DiskFeatures {
  bool rename_no_replace = true;
  bool link = true;
};

/// A file system in memory that keeps a log of everything done to it.
class MemoryDisk final : public io::FileOps {
 public:
  explicit MemoryDisk(DiskImage start = {Node{.folder = true}}, DiskFeatures features = {})
      : start_(std::move(start)), live_(start_), features_(features) {}

  const DiskImage& start() const { return start_; }  ///< the initial state, which is permanent
  const DiskImage& live() const { return live_; }    ///< the current state, as programs see it
  const std::vector<DiskEvent>& log() const { return log_; }
  std::size_t now() const { return log_.size(); }
  /// Flips a bit of a file permanently, as a defective disk does.
  void rot(const std::string& path, std::size_t byte);

  int open_folder(const std::string& path, int& folder) override;
  int create_folder(const std::string& path) override;
  int open_folder_in(int folder, const std::string& name, int& opened) override;
  int create_folder_in(int folder, const std::string& name) override;
  int create_exclusive(int folder, const std::string& name, int& file) override;
  int open_read(int folder, const std::string& name, int& file) override;
  int open_or_create(int folder, const std::string& name, int& file) override;
  int write(int file, std::span<const std::byte> bytes, std::size_t& written) override;
  int read_at(int file, std::uint64_t offset, std::span<std::byte> bytes, std::size_t& got) override;
  int truncate(int file, std::uint64_t bytes) override;
  int sync(int file) override;
  int close(int file) override;
  int drop_cache(int) override { return 0; }
  int status(int file, io::FileStatus& status) override;
  int status_of(int folder, const std::string& name, io::FileStatus& status) override;
  int rename_no_replace(int folder, const std::string& from, const std::string& to) override;
  int rename_over(int folder, const std::string& from, const std::string& to) override;
  int link(int folder, const std::string& from, const std::string& to) override;
  int unlink(int folder, const std::string& name) override;
  int list(int folder, std::vector<std::string>& names) override;
  int lock_exclusive(int file) override;

  /// Returns the node of a descriptor.
  int node_of(int descriptor) const { return open_.at(static_cast<std::size_t>(descriptor)).node; }
  int open_descriptors() const;

 private:
  struct Descriptor {
    int node = -1;  // -1: closed
    std::uint64_t position = 0;
    bool locked = false;
  };
  int open_node(int node, int& descriptor);
  int create(int folder, const std::string& name, int& file);
  int entry(int folder, const std::string& name) const;
  int rename(int folder, const std::string& from, const std::string& to, bool replace);
  Node& node(int descriptor) { return live_[static_cast<std::size_t>(node_of(descriptor))]; }
  const Node& node(int descriptor) const { return live_[static_cast<std::size_t>(node_of(descriptor))]; }
  void record(DiskEvent event);

  std::mutex mutex_;
  DiskImage start_, live_;
  DiskFeatures features_;
  std::vector<DiskEvent> log_;
  std::vector<Descriptor> open_;
};

/// Applies an event to an image.
void replay(const DiskEvent& event, DiskImage& image);

}  // namespace binade::crash
