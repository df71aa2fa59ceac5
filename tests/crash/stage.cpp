#include "tests/crash/stage.h"

#include <utility>

#include "binade/io/files/file_ops.h"

namespace binade::crash {

namespace {

/// Returns the role of a file name in the commit protocol, such as "temporary".
std::string role_of(const std::string& name) {
  if (name == ".MANIFEST.tmp") return "manifest temporary";
  if (name == "MANIFEST") return "manifest";
  if (name == ".config.json.tmp") return "config temporary";
  if (name == "config.json") return "config";
  if (name.ends_with(".saving")) return "temporary";
  if (io::step_of_file_name(name)) return "checkpoint";
  if (name.find(".abandoned-") != std::string::npos) return "abandoned";
  if (name.find(".corrupt-") != std::string::npos) return "corrupt";
  return name;
}

}  // namespace

void Stage::tick() {
  if (countdown_ >= 0 && countdown_-- == 0) throw Killed();
}

bool Stage::forgets(const std::string& kind, int folder) {
  kinds_.insert(kind);
  opening_ = -1;
  if (folder >= 0) last_[names_[folder]] = kind;
  return kind == forgotten_;
}

int Stage::open_folder(const std::string& path, int& folder) {
  const int error = ForwardingFileOps::open_folder(path, folder);
  if (error == 0) names_[folder] = path;
  return error;
}

int Stage::open_folder_in(int folder, const std::string& name, int& opened) {
  const int error = ForwardingFileOps::open_folder_in(folder, name, opened);
  if (error == 0) names_[opened] = names_[folder] + "/" + name;
  if (error == 0 && name == "checkpoints") opening_ = opened;
  return error;
}

int Stage::create_folder(const std::string& path) {
  tick();
  const int error = ForwardingFileOps::create_folder(path);
  if (error == 0) last_[io::split_path(path).first] = "create folder " + io::split_path(path).second;
  return error;
}

int Stage::create_exclusive(int folder, const std::string& name, int& file) {
  tick();
  if (manifest_full_ && name == ".MANIFEST.tmp") return ENOSPC;
  const int error = ForwardingFileOps::create_exclusive(folder, name, file);
  if (error == 0) names_[file] = name;
  return error;
}

int Stage::open_read(int folder, const std::string& name, int& file) {
  const int error = ForwardingFileOps::open_read(folder, name, file);
  if (error == 0) names_[file] = name;
  return error;
}

int Stage::open_or_create(int folder, const std::string& name, int& file) {
  tick();
  const int error = ForwardingFileOps::open_or_create(folder, name, file);
  if (error == 0) names_[file] = name;
  return error;
}

int Stage::write(int file, std::span<const std::byte> bytes, std::size_t& written) {
  tick();
  return ForwardingFileOps::write(file, bytes, written);
}

int Stage::truncate(int file, std::uint64_t bytes) {
  tick();
  return ForwardingFileOps::truncate(file, bytes);
}

int Stage::sync(int file) {
  tick();
  const std::string& name = names_[file];
  const auto folder = last_.find(name);
  const std::string kind = std::exchange(opening_, -1) == file ? "sync folder at opening"
                           : name.starts_with("/") || folder != last_.end()
                               ? "sync folder after " + (folder == last_.end() ? "nothing" : folder->second)
                               : "sync " + role_of(name);
  return forgets(kind) ? 0 : ForwardingFileOps::sync(file);
}

int Stage::rename_no_replace(int folder, const std::string& from, const std::string& to) {
  tick();
  return forgets("rename " + role_of(from) + " to " + role_of(to), folder)
             ? 0
             : ForwardingFileOps::rename_no_replace(folder, from, to);
}

int Stage::rename_over(int folder, const std::string& from, const std::string& to) {
  tick();
  return forgets("rename " + role_of(from) + " over " + role_of(to), folder)
             ? 0
             : ForwardingFileOps::rename_over(folder, from, to);
}

int Stage::link(int folder, const std::string& from, const std::string& to) {
  tick();
  return forgets("link " + role_of(from) + " to " + role_of(to), folder) ? 0
                                                                         : ForwardingFileOps::link(folder, from, to);
}

int Stage::unlink(int folder, const std::string& name) {
  tick();
  return forgets("unlink " + role_of(name), folder) ? 0 : ForwardingFileOps::unlink(folder, name);
}

}  // namespace binade::crash
