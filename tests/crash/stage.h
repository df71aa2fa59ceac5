#pragma once

#include <cerrno>
#include <map>
#include <set>

#include "binade/io/files/forwarding_file_ops.h"

namespace binade::crash {

/// Thrown in place of a SIGKILL: nothing in the product catches it.
struct Killed {};

/// Stands between the product and a disk: kills the process before its n-th call that changes something, is full when
/// MANIFEST is written, and forgets calls of one kind as a program with a bug would.
///
/// Kinds are named by what they do in the protocol: "sync temporary", "rename temporary to checkpoint", "sync folder
/// after rename temporary to checkpoint".
class Stage final : public io::ForwardingFileOps {
 public:
  explicit Stage(io::FileOps& disk) : ForwardingFileOps(disk) {}

  void kill_before(int calls) { countdown_ = calls; }
  void spare() { countdown_ = -1; }
  void set_manifest_full(bool full) { manifest_full_ = full; }
  void forget(std::string kind) { forgotten_ = std::move(kind); }
  /// Kinds seen so far that can be forgotten.
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
  /// Whether the call is one to forget; in a folder it is remembered as the last change.
  bool forgets(const std::string& kind, int folder = -1);

  int countdown_ = -1;
  int opening_ = -1;  // the folder of checkpoints that was opened and not yet changed
  bool manifest_full_ = false;
  std::string forgotten_;
  std::set<std::string> kinds_;
  std::map<int, std::string> names_;         // of open descriptors
  std::map<std::string, std::string> last_;  // change of a folder, by the folder's path
};

}  // namespace binade::crash
