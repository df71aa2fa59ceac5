#pragma once

#include <cerrno>
#include <map>
#include <set>

#include "binade/io/files/forwarding_file_ops.h"

namespace binade::crash {

/// Thrown where a real process would be killed; no code of Binade catches it.
struct Killed {};

/// A layer between Binade and a disk. It can throw Killed before the n-th call that changes the disk, report a full
/// disk when MANIFEST is written, and leave out calls of one kind, as a program with a bug would.
///
/// Kinds of calls are named after their purpose in the commit protocol: "sync temporary", "rename temporary to
/// checkpoint", "sync folder after rename temporary to checkpoint".
class Stage final : public io::ForwardingFileOps {
 public:
  explicit Stage(io::FileOps& disk) : ForwardingFileOps(disk) {}

  void kill_before(int calls) { countdown_ = calls; }
  void spare() { countdown_ = -1; }
  void set_manifest_full(bool full) { manifest_full_ = full; }
  void forget(std::string kind) { forgotten_ = std::move(kind); }
  /// The kinds of calls so far, which forget() can leave out.
  const std::set<std::string>& kinds() const { return kinds_; }

  int open_folder(const std::string& path, int& folder) override;
  int create_folder(const std::string& path) override;
  int open_folder_in(int folder, const std::string& name, int& opened) override;
  int create_exclusive(int folder, const std::string& name, int& file) override;
  int open_read(int folder, const std::string& name, int& file) override;
  int open_or_create(int folder, const std::string& name, int& file) override;
  int write(int file, std::span<const std::byte> bytes, std::size_t& written) override;
  int truncate(int file, std::uint64_t bytes) override;
  int sync(int file) override;
  int rename_no_replace(int folder, const std::string& from, const std::string& to) override;
  int rename_over(int folder, const std::string& from, const std::string& to) override;
  int link(int folder, const std::string& from, const std::string& to) override;
  int unlink(int folder, const std::string& name) override;

 private:
  void tick();
  /// Returns true if the call is to be left out. Records a call in a folder as the folder's last change.
  bool forgets(const std::string& kind, int folder = -1);

  int countdown_ = -1;
  int opening_ = -1;  // descriptor of the checkpoint folder, until the first change or sync after its opening; -1: none
  bool manifest_full_ = false;
  std::string forgotten_;
  std::set<std::string> kinds_;
  std::map<int, std::string> names_;         // names of open descriptors
  std::map<std::string, std::string> last_;  // last change of each folder, by path
};

}  // namespace binade::crash
