#include "binade/run/launch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "binade/core/error.h"

namespace binade::amp {
namespace {

std::string mpirun_path() {
  const char* named = std::getenv("BINADE_MPIRUN");
  return named != nullptr && *named != '\0' ? named : "mpirun";
}

/// Returns the output of `mpirun --version`; empty if it cannot be run.
std::string version_of(const std::string& mpirun) {
  int ends[2] = {};
  if (pipe(ends) != 0) return "";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    close(ends[0]);
    close(ends[1]);
    execlp(mpirun.c_str(), mpirun.c_str(), "--version", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t bytes = 0; child > 0 && (bytes = read(ends[0], part.data(), part.size())) != 0;) {
    if (bytes < 0 && errno != EINTR) break;
    if (bytes > 0) text.append(part.data(), static_cast<std::size_t>(bytes));
  }
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return text;
}

/// Returns the arguments of this process.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::vector<std::string> arguments;
  for (std::size_t begin = 0, end = 0; (end = text.find('\0', begin)) != text.npos; begin = end + 1)
    arguments.push_back(text.substr(begin, end - begin));
  check<ArgumentError>(!arguments.empty(), "--ranks: cannot read the arguments of this process from /proc");
  return arguments;
}

std::string own_program() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  check<ArgumentError>(length > 0 && static_cast<std::size_t>(length) < path.size(),
                       "--ranks: cannot read the path of this program from /proc");
  return {path.data(), static_cast<std::size_t>(length)};
}

}  // namespace

std::vector<std::string> mpirun_command(const std::string& mpirun, const std::string& version, int ranks) {
  std::vector<std::string> command = {mpirun, "-n", std::to_string(ranks)};
  const std::size_t open_mpi = version.find("Open MPI) ");
  if (open_mpi == version.npos) return command;
  const int major = std::atoi(version.c_str() + open_mpi + std::strlen("Open MPI) "));
  // Ranks may share cores, and each rank has threads of its own: a rank must not be pinned to one core.
  command.insert(command.end(), {"--bind-to", "none"});
  if (major >= 5) {
    command.insert(command.end(), {"--map-by", ":OVERSUBSCRIBE"});
  } else {
    // After SIGTERM, mpirun would kill ranks within 1 s, in the middle of a save. It waits twice this time, and passes
    // SIGTERM on after the first one.
    command.insert(command.end(), {"--oversubscribe", "--mca", "odls_base_sigkill_timeout", "10"});
  }
  return command;
}

void launch_ranks(int ranks, const std::vector<std::string>& more) {
  const std::string mpirun = mpirun_path(), version = version_of(mpirun);
  check<ArgumentError>(
      !version.empty(),
      "--ranks {}: '{} --version' does not run; install Open MPI (openmpi-bin) or name another mpirun in "
      "BINADE_MPIRUN",
      ranks, mpirun);
  std::vector<std::string> command = mpirun_command(mpirun, version, ranks);
  const std::vector<std::string> own = own_arguments();
  command.push_back(own_program());
  command.insert(command.end(), own.begin() + 1, own.end());
  command.insert(command.end(), more.begin(), more.end());
  if (geteuid() == 0)  // Open MPI starts nothing for root, as in a container, unless it is asked twice
    for (const char* variable : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT",
                                 "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"})
      setenv(variable, "1", 1);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments.front(), arguments.data());
  throw ArgumentError(fmt::format("--ranks {}: {} cannot be started: {}", ranks, mpirun, std::strerror(errno)));
}

}  // namespace binade::amp
