#include "binade/run/launched_processes.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <string_view>

#include "binade/core/error.h"

namespace binade::amp {
namespace {

namespace fs = std::filesystem;

/// Returns the content of a file of /proc; empty if the process has ended.
std::string content_of(pid_t process, const char* file) {
  std::ifstream in(fmt::format("/proc/{}/{}", process, file), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Returns the parent of a process; 0 if it has ended.
pid_t parent_of(pid_t process) {
  const std::string stat = content_of(process, "stat");  // "12 (name with any character) S 11 …"
  const std::size_t end = stat.rfind(')');
  pid_t parent = 0;
  if (end != stat.npos && end + 4 < stat.size())
    std::from_chars(stat.data() + end + 4, stat.data() + stat.size(), parent);
  return parent;
}

/// Returns the rank of a process, by the variables that launchers set; the highest number if it has none.
int rank_of(pid_t process) {
  const std::string environment = content_of(process, "environ");
  for (const std::string_view name : {"OMPI_COMM_WORLD_RANK=", "PMIX_RANK=", "PMI_RANK="})
    for (std::size_t begin = 0, end = 0; (end = environment.find('\0', begin)) != environment.npos; begin = end + 1)
      if (std::string_view(environment).substr(begin).starts_with(name)) {
        int rank = 0;
        std::from_chars(environment.data() + begin + name.size(), environment.data() + end, rank);
        return rank;
      }
  return std::numeric_limits<int>::max();
}

}  // namespace

std::string program_of(pid_t process) {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink(fmt::format("/proc/{}/exe", process).c_str(), path.data(), path.size());
  if (length <= 0 || static_cast<std::size_t>(length) >= path.size()) return "";
  std::string_view program(path.data(), static_cast<std::size_t>(length));
  // The system adds this if the file was deleted or replaced, as when the program is built again during the run.
  constexpr std::string_view kDeleted = " (deleted)";
  if (program.ends_with(kDeleted)) program.remove_suffix(kDeleted.size());
  return std::string(program);
}

std::vector<LaunchedProcess> processes_below(pid_t parent, const std::string& program) {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    pid_t process = 0;
    const auto [stop, bad] = std::from_chars(name.data(), name.data() + name.size(), process);
    if (bad == std::errc() && stop == name.data() + name.size()) children.emplace(parent_of(process), process);
  }
  std::vector<LaunchedProcess> found;
  std::vector<pid_t> open = {parent};
  while (!open.empty()) {
    const auto [begin, end] = children.equal_range(open.back());
    open.pop_back();
    for (auto child = begin; child != end; ++child)
      if (program_of(child->second) == program)
        found.push_back({child->second, rank_of(child->second)});
      else
        open.push_back(child->second);
  }
  std::ranges::sort(found, {}, &LaunchedProcess::rank);
  return found;
}

int pending_stop_of(pid_t process) {
  const std::string status = content_of(process, "status");
  constexpr std::string_view kField = "\nShdPnd:\t";  // signals to the process, as hexadecimal digits
  const std::size_t at = status.find(kField);
  std::uint64_t pending = 0;
  if (at != status.npos)
    std::from_chars(status.data() + at + kField.size(), status.data() + status.size(), pending, 16);
  for (const int signal : {SIGTERM, SIGINT})
    if ((pending >> (signal - 1) & 1) != 0) return signal;
  return 0;
}

}  // namespace binade::amp
