#include "binade/run/supervisor.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>

#include "binade/amp/text.h"
#include "binade/core/error.h"
#include "binade/core/program_flags.h"
#include "binade/io/files/file_ops.h"
#include "binade/io/records/json_lines.h"
#include "binade/io/terminal/console.h"
#include "binade/io/terminal/signals.h"
#include "binade/run/blocked_signals.h"
#include "binade/run/incident_folders.h"

namespace binade::amp {
namespace {

namespace fs = std::filesystem;

constexpr int kPreempted = 10, kInterrupted = 11, kStorage = 24, kMemory = 50, kDevice = 51, kRank = 52, kInternal = 70;
constexpr int kSignal = 128;  // a launcher adds this to the number of the signal that killed one of its processes

/// Progress of a run, read from its folder.
struct Progress {
  long long step = 0;        // last step in metrics.jsonl
  long long checkpoint = 0;  // step of the newest checkpoint
};

/// Sizes of a run's logs in bytes.
struct LogSizes {
  std::uintmax_t events = 0, metrics = 0;
};

std::uintmax_t size_of(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return 0;
  const std::uintmax_t bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

LogSizes log_sizes_of(const std::string& folder) {
  return {size_of(folder + "/events.jsonl"), size_of(folder + "/metrics.jsonl")};
}

/// True if a child has begun or resumed the run, or recorded an attempt at a step, since the run's logs had the sizes
/// `before`.
bool has_worked(const std::string& folder, const LogSizes& before) {
  if (size_of(folder + "/metrics.jsonl") != before.metrics) return true;
  const std::uintmax_t now = size_of(folder + "/events.jsonl");
  if (now <= before.events) return false;
  try {
    const std::string added = io::FilesBelow(folder).read_end("events.jsonl", now - before.events);
    return added.find("\"kind\":\"begun\"") != added.npos || added.find("\"kind\":\"resumed\"") != added.npos;
  } catch (const StorageError&) {  // the child itself will report this error
    return false;
  }
}

Progress progress_of(const std::string& folder) {
  constexpr std::uint64_t kMaxLine = 1u << 16;
  Progress progress;
  try {
    const io::FilesBelow files(folder);
    for (const std::string& line : split_lines(files.read_end("metrics.jsonl", kMaxLine)))
      if (line.ends_with('}')) std::sscanf(line.c_str(), "{\"step\":%lld,", &progress.step);
    for (const std::string& name : files.names_in("checkpoints"))
      if (const auto step = io::step_of_file_name(name))
        progress.checkpoint = std::max<long long>(progress.checkpoint, *step);
  } catch (const StorageError&) {  // no run yet, or the child itself will report the error
  }
  return progress;
}

/// The way in which a child process ended.
struct ChildExit {
  int status = 0;  // as waitpid() sets it

  bool by_signal() const { return WIFSIGNALED(status) || WEXITSTATUS(status) > kSignal; }
  int signal() const { return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status) - kSignal; }
  int code() const { return by_signal() ? kInternal : WEXITSTATUS(status); }
  bool allows_restart() const {
    constexpr std::array kRestarted = {kPreempted, kInterrupted, kStorage, kMemory, kDevice, kRank, kInternal};
    return by_signal() || std::ranges::find(kRestarted, code()) != kRestarted.end();
  }
  std::string text() const {
    return by_signal() ? fmt::format("killed by signal {} ({})", signal(), ::strsignal(signal()))
                       : fmt::format("ended with exit code {}", code());
  }
};

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options) : options_(options), newest_(progress_of(options.folder)) {}

  int run(const std::function<int(int)>& work) {
    for (int life = 0;; ++life) {
      start_sizes_ = log_sizes_of(options_.folder);
      if (options_.before_start) options_.before_start(deaths_without_checkpoint_);
      std::fflush(nullptr);  // the child would print buffered text again
      const pid_t parent = ::getpid(), child = ::fork();
      check<OutOfMemoryError>(child >= 0, "supervisor: cannot start a process: {}", std::strerror(errno));
      if (child == 0) {
        become_child(parent);
        return work(life);
      }
      ::setpgid(child, child);  // the child does this too, but a signal may arrive before
      const ChildExit death = wait_for(child);
      if (asked_to_stop_) return death.by_signal() ? kInterrupted : death.code();
      if (!death.allows_restart()) return death.code();
      if (gives_up_after(death)) return death.code();
      if (const int signal = pause(); signal != 0) {
        report("stopped", newest_.step,
               fmt::format("stopped by signal {} between two processes; the newest checkpoint is {}", signal,
                           newest_.checkpoint));
        return kPreempted;
      }
    }
  }

 private:
  /// Called in the child. Moves it to a separate process group, so that it gets Ctrl-C on a terminal only from the
  /// supervisor.
  void become_child(pid_t parent) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    io::StopSignals::set_supervisor(parent);
    signals_.release();
    if (::getppid() != parent) ::raise(SIGTERM);
  }

  ChildExit wait_for(pid_t child) {
    for (;;) {
      int status = 0;
      if (::waitpid(child, &status, WNOHANG) == child) return {status};
      const int signal = signals_.wait(3600);
      if (!BlockedSignals::stops(signal)) continue;
      asked_to_stop_ = true;
      ::kill(child, signal);
    }
  }

  /// Counts the death of a child, and reports the death with the decision to restart or to give up. Returns true if the
  /// supervisor gives up.
  bool gives_up_after(const ChildExit& death) {
    const Progress now = progress_of(options_.folder);
    deaths_without_checkpoint_ = now.checkpoint > newest_.checkpoint ? 1 : deaths_without_checkpoint_ + 1;
    newest_ = now;
    // The death of a child that had not begun or resumed the run does not count as a death at the run's last step.
    const bool worked = has_worked(options_.folder, start_sizes_);
    const int here = worked ? ++deaths_[now.step] : 0;
    const std::string what = fmt::format("{} {} step {}", death.text(), worked ? "after" : "before it went on from",
                                         now.step);
    if (here >= options_.deaths_at_a_step)
      return give_up(now.step, fmt::format("{}, {} times there: a restart would end in the same way", what, here));
    if (deaths_without_checkpoint_ >= options_.deaths_in_a_row)
      return give_up(now.step, fmt::format("{}, {} times without a new checkpoint", what, deaths_without_checkpoint_));
    pause_ = std::min(options_.longest_pause, options_.pause * std::exp2(deaths_without_checkpoint_ - 1));
    report("died", now.step,
           fmt::format("{}; it goes on from checkpoint {} in {:.1f} s", what, now.checkpoint, pause_));
    return false;
  }

  bool give_up(long long step, const std::string& what) {
    report("given-up", step, what);
    if (!folder_exists()) return true;
    const io::FilesBelow files(options_.folder);
    IncidentFolders incidents(files);
    const std::string remedy = "the supervisor gave the run up; the last commit is intact";
    incidents.write(step, 1, "report.json",
                    io::JsonObject()
                            .add("schema", 1)
                            .add("step", step)
                            .add("kind", "crash")
                            .add("what", what)
                            .add_raw("remedy", io::JsonObject().add("action", "stop").add("what", remedy).text())
                            .text() +
                        "\n");
    incidents.write(
        step, 1, "report.md",
        fmt::format("# Crash after step {}\n\n- **What**: {}\n- **Done**: {}\n- **To do**: run it without {}, "
                    "under a debugger; the messages of the programs are on the terminal\n",
                    step, what, remedy, flag_or("supervise", "", "amp::supervise()")));
    return true;
  }

  /// True if the run folder exists. False if the system reports an error, for example for a path that is too long: the
  /// child reports that error.
  bool folder_exists() const {
    std::error_code ignored;
    return fs::is_directory(options_.folder, ignored);
  }

  void report(const char* kind, long long step, const std::string& what) {
    // On a terminal, begins a new line, because the cursor is at the end of the dead child's progress line.
    io::say((io::Console::of(2).terminal ? "\nsupervisor: " : "supervisor: ") + what);
    if (!folder_exists()) return;
    try {
      io::JsonLines(io::FilesBelow(options_.folder), "events.jsonl")
          .write(io::JsonObject().add("step", step).add("kind", kind).add("what", what).add("time", io::utc_now()));
    } catch (const StorageError& error) {  // the child may have died of the same error
      io::say(fmt::format("supervisor: {}", error.what()));
    }
  }

  /// Waits before a restart. Returns a signal that asks the supervisor to stop, or 0.
  int pause() {
    const auto now = [] {
      timespec t{};
      ::clock_gettime(CLOCK_MONOTONIC, &t);
      return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
    };
    for (const double end = now() + pause_; now() < end;) {
      const int signal = signals_.wait(end - now());
      if (BlockedSignals::stops(signal)) return signal;
    }
    return 0;
  }

  const SupervisorOptions& options_;
  BlockedSignals signals_;
  Progress newest_;
  LogSizes start_sizes_;               // sizes of the logs when the last child was started
  std::map<long long, int> deaths_;    // number of deaths by step
  int deaths_without_checkpoint_ = 0;  // number of deaths without a new checkpoint
  double pause_ = 0;
  bool asked_to_stop_ = false;
};

}  // namespace

int supervise(const SupervisorOptions& options, const std::function<int(int life)>& work) {
  return Supervisor(options).run(work);
}

}  // namespace binade::amp
