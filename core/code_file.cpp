#include "binade/core/code_file.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <grp.h>
#include <link.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace binade {
namespace {

/// True if `group` is the private group of `user`: it has the name of the user and no other members. On many systems
/// new files are writable for that group.
bool is_private_group(gid_t group, uid_t user) {
  std::array<char, 16384> user_text{}, group_text{};
  passwd user_entry{}, *user_found = nullptr;
  struct group group_entry {
  }, *group_found = nullptr;
  if (getpwuid_r(user, &user_entry, user_text.data(), user_text.size(), &user_found) != 0 || user_found == nullptr ||
      getgrgid_r(group, &group_entry, group_text.data(), group_text.size(), &group_found) != 0 ||
      group_found == nullptr)
    return false;
  if (std::strcmp(user_found->pw_name, group_found->gr_name) != 0) return false;
  for (char** member = group_found->gr_mem; *member != nullptr; ++member)
    if (std::strcmp(*member, user_found->pw_name) != 0) return false;
  return true;
}

std::string why_writable_by_others(const std::string& path, const struct stat& status) {
  if (status.st_uid != 0 && status.st_uid != geteuid())
    return fmt::format("{} belongs to user {}, neither to this one ({}) nor to root", path, status.st_uid, geteuid());
  if ((status.st_mode & S_IWOTH) != 0)
    return fmt::format("every user may write to {}; take the right away with 'chmod o-w'", path);
  if ((status.st_mode & S_IWGRP) != 0 && !is_private_group(status.st_gid, status.st_uid))
    return fmt::format("the users of group {} may write to {}; take the right away with 'chmod g-w'", status.st_gid,
                       path);
  return "";
}

}  // namespace

std::string why_not_executable(const std::string& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(path, error);
  if (error) return fmt::format("{} could not be opened: {}", path, error.message());
  struct stat of_file {
  }, of_folder{};
  const std::string folder = file.parent_path().string();
  if (::stat(file.c_str(), &of_file) != 0 || ::stat(folder.c_str(), &of_folder) != 0)
    return fmt::format("{} could not be examined: {}", path, std::strerror(errno));
  if (!S_ISREG(of_file.st_mode)) return fmt::format("{} is no regular file", path);
  const std::string why = why_writable_by_others(file.string(), of_file);
  return why.empty() ? why_writable_by_others(folder, of_folder) : why;
}

std::string folder_of_library() {
  Dl_info info{};
  link_map* map = nullptr;
  if (dladdr1(reinterpret_cast<void*>(&folder_of_library), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0)
    return {};
  std::error_code error;
  std::filesystem::path file = map->l_name;
  if (file.empty())
    file = std::filesystem::read_symlink("/proc/self/exe", error);  // this code was linked into the program itself
  return file.is_absolute() ? file.parent_path().string() : "";
}

}  // namespace binade
