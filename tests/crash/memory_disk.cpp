#include "tests/crash/memory_disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace binade::crash {

int node_at(const DiskImage& image, const std::string& path) {
  int node = 0;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (end > at) {
      const Node& folder = image[static_cast<std::size_t>(node)];
      const auto found = folder.entries.find(path.substr(at, end - at));
      if (!folder.folder || found == folder.entries.end()) return -1;
      node = found->second;
    }
    at = end + 1;
  }
  return node;
}

void replay(const DiskEvent& event, DiskImage& image) {
  Node& node = image[static_cast<std::size_t>(event.node)];
  switch (event.kind) {
    case DiskEvent::Kind::kData:
      node.bytes.resize(std::max<std::size_t>(node.bytes.size(), event.offset + event.bytes.size()));
      std::copy(event.bytes.begin(), event.bytes.end(), node.bytes.begin() + static_cast<std::ptrdiff_t>(event.offset));
      break;
    case DiskEvent::Kind::kSize: node.bytes.resize(event.offset); break;
    case DiskEvent::Kind::kEntries:
      for (const auto& [name, target] : event.entries)
        if (target == DiskEvent::kGone)
          node.entries.erase(name);
        else
          node.entries[name] = target;
      break;
    case DiskEvent::Kind::kSync: break;
  }
}

void MemoryDisk::record(DiskEvent event) {
  replay(event, live_);
  log_.push_back(std::move(event));
}

void MemoryDisk::rot(const std::string& path, std::size_t byte) {
  const int node = node_at(live_, path);
  const std::byte turned = live_[static_cast<std::size_t>(node)].bytes.at(byte) ^ std::byte{4};
  record({.kind = DiskEvent::Kind::kData, .node = node, .offset = byte, .bytes = {turned}});
  record({.kind = DiskEvent::Kind::kSync, .node = node});
}

int MemoryDisk::open_descriptors() const {
  return static_cast<int>(std::ranges::count_if(open_, [](const Descriptor& d) { return d.node >= 0; }));
}

int MemoryDisk::open_node(int node, int& descriptor) {
  const auto closed = std::ranges::find_if(open_, [](const Descriptor& d) { return d.node < 0; });
  descriptor = static_cast<int>(closed - open_.begin());
  if (closed == open_.end()) open_.emplace_back();
  open_[static_cast<std::size_t>(descriptor)] = {.node = node};
  return 0;
}

int MemoryDisk::entry(int folder, const std::string& name) const {
  const auto found = node(folder).entries.find(name);
  return found == node(folder).entries.end() ? -1 : found->second;
}

int MemoryDisk::open_folder(const std::string& path, int& folder) {
  const std::scoped_lock lock(mutex_);
  const int found = node_at(live_, path);
  if (found < 0) return ENOENT;
  return live_[static_cast<std::size_t>(found)].folder ? open_node(found, folder) : ENOTDIR;
}

int MemoryDisk::create_folder(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  if (node_at(live_, path) >= 0) return EEXIST;
  const auto [parent_path, name] = io::split_path(path);
  const int parent = node_at(live_, parent_path);
  if (parent < 0) return ENOENT;
  live_.push_back({.folder = true});
  record({.kind = DiskEvent::Kind::kEntries, .node = parent, .entries = {{name, static_cast<int>(live_.size()) - 1}}});
  return 0;
}

int MemoryDisk::open_folder_in(int folder, const std::string& name, int& opened) {
  const std::scoped_lock lock(mutex_);
  const int found = name == "." ? node_of(folder) : entry(folder, name);
  if (found < 0) return ENOENT;
  return live_[static_cast<std::size_t>(found)].folder ? open_node(found, opened) : ENOTDIR;
}

int MemoryDisk::create_folder_in(int folder, const std::string& name) {
  const std::scoped_lock lock(mutex_);
  if (entry(folder, name) >= 0) return EEXIST;
  live_.push_back({.folder = true});
  const int made = static_cast<int>(live_.size()) - 1;
  record({.kind = DiskEvent::Kind::kEntries, .node = node_of(folder), .entries = {{name, made}}});
  return 0;
}

int MemoryDisk::create(int folder, const std::string& name, int& file) {
  live_.emplace_back();
  const int made = static_cast<int>(live_.size()) - 1;
  record({.kind = DiskEvent::Kind::kEntries, .node = node_of(folder), .entries = {{name, made}}});
  return open_node(made, file);
}

int MemoryDisk::create_exclusive(int folder, const std::string& name, int& file) {
  const std::scoped_lock lock(mutex_);
  return entry(folder, name) >= 0 ? EEXIST : create(folder, name, file);
}

int MemoryDisk::open_read(int folder, const std::string& name, int& file) {
  const std::scoped_lock lock(mutex_);
  const int found = entry(folder, name);
  return found < 0 ? ENOENT : open_node(found, file);
}

int MemoryDisk::open_or_create(int folder, const std::string& name, int& file) {
  const std::scoped_lock lock(mutex_);
  const int found = entry(folder, name);
  return found < 0 ? create(folder, name, file) : open_node(found, file);
}

int MemoryDisk::write(int file, std::span<const std::byte> bytes, std::size_t& written) {
  const std::scoped_lock lock(mutex_);
  Descriptor& at = open_[static_cast<std::size_t>(file)];
  record({.kind = DiskEvent::Kind::kData,
          .node = at.node,
          .offset = at.position,
          .bytes = Bytes(bytes.begin(), bytes.end())});
  at.position += bytes.size();
  written = bytes.size();
  return 0;
}

int MemoryDisk::read_at(int file, std::uint64_t offset, std::span<std::byte> bytes, std::size_t& got) {
  const std::scoped_lock lock(mutex_);
  const Bytes& content = node(file).bytes;
  got = offset >= content.size() ? 0 : std::min<std::size_t>(bytes.size(), content.size() - offset);
  if (got > 0) std::memcpy(bytes.data(), content.data() + offset, got);
  return 0;
}

int MemoryDisk::truncate(int file, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  record({.kind = DiskEvent::Kind::kSize, .node = node_of(file), .offset = bytes});
  return 0;
}

int MemoryDisk::sync(int file) {
  const std::scoped_lock lock(mutex_);
  record({.kind = DiskEvent::Kind::kSync, .node = node_of(file)});
  return 0;
}

int MemoryDisk::close(int file) {
  const std::scoped_lock lock(mutex_);
  open_[static_cast<std::size_t>(file)] = {};
  return 0;
}

int MemoryDisk::status(int file, io::FileStatus& status) {
  const std::scoped_lock lock(mutex_);
  status = {!node(file).folder, node(file).folder, node(file).bytes.size(), 0,
            static_cast<std::uint64_t>(node_of(file))};
  return 0;
}

int MemoryDisk::status_of(int folder, const std::string& name, io::FileStatus& status) {
  const std::scoped_lock lock(mutex_);
  const int found = entry(folder, name);
  if (found < 0) return ENOENT;
  const Node& n = live_[static_cast<std::size_t>(found)];
  status = {!n.folder, n.folder, n.bytes.size(), 0, static_cast<std::uint64_t>(found)};
  return 0;
}

int MemoryDisk::rename(int folder, const std::string& from, const std::string& to, bool replace) {
  const std::scoped_lock lock(mutex_);
  const int moved = entry(folder, from);
  if (moved < 0) return ENOENT;
  if (!replace && entry(folder, to) >= 0) return EEXIST;
  record(
      {.kind = DiskEvent::Kind::kEntries, .node = node_of(folder), .entries = {{from, DiskEvent::kGone}, {to, moved}}});
  return 0;
}

int MemoryDisk::rename_no_replace(int folder, const std::string& from, const std::string& to) {
  return features_.rename_no_replace ? rename(folder, from, to, false) : EINVAL;
}

int MemoryDisk::rename_over(int folder, const std::string& from, const std::string& to) {
  return rename(folder, from, to, true);
}

int MemoryDisk::link(int folder, const std::string& from, const std::string& to) {
  const std::scoped_lock lock(mutex_);
  if (!features_.link) return EPERM;
  const int found = entry(folder, from);
  if (found < 0) return ENOENT;
  if (entry(folder, to) >= 0) return EEXIST;
  record({.kind = DiskEvent::Kind::kEntries, .node = node_of(folder), .entries = {{to, found}}});
  return 0;
}

int MemoryDisk::unlink(int folder, const std::string& name) {
  const std::scoped_lock lock(mutex_);
  if (entry(folder, name) < 0) return ENOENT;
  record({.kind = DiskEvent::Kind::kEntries, .node = node_of(folder), .entries = {{name, DiskEvent::kGone}}});
  return 0;
}

int MemoryDisk::list(int folder, std::vector<std::string>& names) {
  const std::scoped_lock lock(mutex_);
  names.clear();
  for (const auto& [name, target] : node(folder).entries) names.push_back(name);
  return 0;
}

int MemoryDisk::lock_exclusive(int file) {
  const std::scoped_lock lock(mutex_);
  Descriptor& mine = open_[static_cast<std::size_t>(file)];
  for (const Descriptor& other : open_)
    if (&other != &mine && other.node == mine.node && other.locked) return EWOULDBLOCK;
  mine.locked = true;
  return 0;
}

}  // namespace binade::crash
