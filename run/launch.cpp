#include "binade/run/launch.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "binade/core/error.h"
#include "binade/io/terminal/signals.h"
#include "binade/run/blocked_signals.h"
#include "binade/run/launched_processes.h"

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

bool is_open_mpi(const std::string& version) { return version.find("Open MPI) ") != version.npos; }

/// A running mpirun. Passes signals to this process on to the ranks.
class Launched {
 public:
  /// Starts mpirun. Throws ArgumentError.
  Launched(std::vector<std::string> command, std::string program, bool shields_mpirun)
      : program_(std::move(program)), blocks_signals_for_mpirun_(shields_mpirun) {
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int ends[2] = {};  // closed when mpirun starts; otherwise errno is written to it
    check<ArgumentError>(::pipe2(ends, O_CLOEXEC) == 0, "--ranks: no pipe: {}", std::strerror(errno));
    std::fflush(nullptr);
    const pid_t parent = ::getpid();
    mpirun_ = ::fork();
    if (mpirun_ == 0) become_mpirun(parent, arguments, ends[1]);
    const int fork_error = errno;
    ::close(ends[1]);
    int problem = mpirun_ < 0 ? fork_error : 0;
    while (mpirun_ > 0 && ::read(ends[0], &problem, sizeof(problem)) < 0 && errno == EINTR) {
    }
    ::close(ends[0]);
    if (problem == 0) return;
    if (mpirun_ > 0) ::waitpid(mpirun_, nullptr, 0);
    throw ArgumentError(fmt::format("--ranks: {} cannot be started: {}", command.front(), std::strerror(problem)));
  }

  /// Waits for the end of mpirun, and passes signals on. Returns its exit code.
  int wait() {
    for (;;) {
      int status = 0;
      if (::waitpid(mpirun_, &status, WNOHANG) == mpirun_) {
        if (kill_deadline_) return kAtOnce;
        return WIFSIGNALED(status) ? kSignal + WTERMSIG(status) : WEXITSTATUS(status);
      }
      const int signal = signals_.wait(kPoll);
      if (BlockedSignals::stops(signal)) {
        request_ = signal;
        // A service manager signals this process and its supervisor, which passes the signal on.
        const bool is_passed_on = signals_.sender() != 0 && signals_.sender() == io::StopSignals::supervisor();
        if (std::exchange(is_passed_on ? asked_by_supervisor_ : asked_, true)) end_at_once(signal);
      } else if (request_ == 0 && blocks_signals_for_mpirun_) {
        request_ = pending_stop_of(mpirun_);
      }
      if (request_ != 0 && !passed_on_) pass_on(request_);
      if (kill_deadline_ && now() > *kill_deadline_) kill_all();
    }
  }

 private:
  static constexpr int kAtOnce = 11, kSignal = 128;      // exit codes
  static constexpr double kPoll = 0.25, kPatience = 10;  // seconds

  static double now() {
    timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }

  /// Called in the child. Does not return.
  [[noreturn]] void become_mpirun(pid_t parent, const std::vector<char*>& arguments, int problems) {
    // A separate process group: Ctrl-C on a terminal goes only to the parent, which passes it on.
    ::setpgid(0, 0);
    signals_.release();
    if (blocks_signals_for_mpirun_) {
      // If Open MPI 4 gets one of these signals, it ends the ranks after its own timeout, with exit code 1. It unblocks
      // all signals for the ranks.
      sigset_t shielded;
      ::sigemptyset(&shielded);
      for (const int signal : {SIGTERM, SIGINT}) ::sigaddset(&shielded, signal);
      ::sigprocmask(SIG_BLOCK, &shielded, nullptr);
      struct sigaction standard {};  // an ignored SIGHUP, as under nohup, would not end mpirun
      standard.sa_handler = SIG_DFL;
      ::sigaction(SIGHUP, &standard, nullptr);
    }
    ::prctl(PR_SET_PDEATHSIG, SIGHUP);
    if (::getppid() != parent) ::_exit(kAtOnce);
    if (const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC); nothing >= 0) ::dup2(nothing, 0);
    ::execvp(arguments.front(), arguments.data());
    const int problem = errno;
    [[maybe_unused]] const ssize_t n = ::write(problems, &problem, sizeof(problem));
    ::_exit(127);
  }

  /// Asks rank 0 to stop; rank 0 tells the others. Does nothing if no rank runs yet; wait() then tries again.
  void pass_on(int signal) {
    const std::vector<LaunchedProcess> ranks = processes_below(mpirun_, program_);
    if (ranks.empty()) return;
    passed_on_ = true;
    ::kill(ranks.front().id, signal);
  }

  void end_at_once(int signal) {
    if (kill_deadline_) return kill_all();
    kill_deadline_ = now() + kPatience;
    sigval value{};
    value.sival_int = io::StopSignals::kAtOnce;
    for (const LaunchedProcess& one : processes_below(mpirun_, program_)) ::sigqueue(one.id, signal, value);
  }

  void kill_all() {
    const std::vector<LaunchedProcess> ranks = processes_below(mpirun_, program_);
    ::kill(mpirun_, SIGKILL);
    for (const LaunchedProcess& one : ranks) ::kill(one.id, SIGKILL);
    kill_deadline_ = now() + kPatience;
  }

  const std::string program_;
  const bool blocks_signals_for_mpirun_;
  BlockedSignals signals_;
  pid_t mpirun_ = 0;
  int request_ = 0;  // the signal that asks the ranks to stop; 0: none yet
  bool asked_ = false, asked_by_supervisor_ = false;
  bool passed_on_ = false;
  std::optional<double> kill_deadline_{};  // time at which all processes are killed
};

}  // namespace

std::vector<std::string> mpirun_command(const std::string& mpirun, const std::string& version, int ranks) {
  std::vector<std::string> command = {mpirun, "-n", std::to_string(ranks)};
  const std::size_t open_mpi = version.find("Open MPI) ");
  if (open_mpi == version.npos) return command;
  const int major = std::atoi(version.c_str() + open_mpi + std::strlen("Open MPI) "));
  // Ranks may share cores, and each rank has several threads, so a rank must not be pinned to one core.
  command.insert(command.end(), {"--bind-to", "none"});
  if (major >= 5) {
    command.insert(command.end(), {"--map-by", ":OVERSUBSCRIBE"});
  } else {
    // If a rank fails, or if this process is killed, mpirun sends SIGTERM to the ranks after this time in seconds, and
    // SIGKILL after the same time again. It waits for the same time if ranks ended with an exit code other than 0.
    command.insert(command.end(), {"--oversubscribe", "--mca", "odls_base_sigkill_timeout", "3"});
  }
  return command;
}

int launch_ranks(int ranks, const std::vector<std::string>& more) {
  const std::string mpirun = mpirun_path(), version = version_of(mpirun);
  check<ArgumentError>(
      !version.empty(),
      "--ranks {}: '{} --version' does not run; install Open MPI (openmpi-bin) or name another mpirun in "
      "BINADE_MPIRUN",
      ranks, mpirun);
  std::vector<std::string> command = mpirun_command(mpirun, version, ranks);
  const std::vector<std::string> own = own_arguments();
  const std::string program = program_of(::getpid());
  check<ArgumentError>(!program.empty(), "--ranks: cannot read the path of this program from /proc");
  command.push_back(program);
  command.insert(command.end(), own.begin() + 1, own.end());
  command.insert(command.end(), more.begin(), more.end());
  if (geteuid() == 0)  // for root, as in a container, Open MPI requires these variables
    for (const char* variable : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "PRTE_ALLOW_RUN_AS_ROOT",
                                 "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"})
      setenv(variable, "1", 1);
  setenv(io::StopSignals::kLauncher, std::to_string(::getpid()).c_str(), 1);
  return Launched(std::move(command), program, is_open_mpi(version)).wait();
}

}  // namespace binade::amp
