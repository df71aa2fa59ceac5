#include "binade/run/rank_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <sstream>
#include <utility>

#include "binade/amp/text.h"
#include "binade/io/terminal/console.h"

namespace binade::amp {
namespace {

constexpr const char* kFolder = "ranks";
constexpr std::chrono::seconds kEvery{1};  // between two writes of a file
constexpr double kSilent = 10;             // seconds without a write, or half the deadline if that is less
constexpr const char* kWhileAlive = "while-alive";

std::string file_of(int rank) { return fmt::format("rank-{}.txt", rank); }

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

/// Opens the folder of the files, and creates it if it is missing.
io::FileHandle open_folder_of(const io::FilesBelow& run) {
  const int error = run.ops().create_folder_in(run.descriptor(), kFolder);
  io::Opened opened = io::try_open(run.ops(), &io::FileOps::open_folder_in, run.descriptor(), std::string(kFolder));
  if (error != 0 && error != EEXIST) opened.error = error;
  check<StorageError>(opened.error == 0, "ranks: {} cannot be opened: {}", run.path_of(kFolder),
                      io::error_text(opened.error));
  return std::move(opened.handle);
}

/// Returns the time of the last write of a file, by the clock of its file system; std::nullopt if it is missing.
std::optional<double> written_at(int folder, const std::string& name) {
  struct stat status {};
  if (::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  return text;
}

/// Parses a file that RankWatch::write() wrote.
void parse(const std::string& text, RankStatus& status) {
  for (const std::string& line : split_lines(text)) {
    const std::size_t space = line.find(' ');
    if (space == line.npos) continue;
    const std::string key = line.substr(0, space), value = line.substr(space + 1);
    std::istringstream in(value);
    if (key == "host") status.host = io::printable(value);
    if (key == "process") in >> status.process;
    if (key == "seconds") in >> status.activity.seconds;
    if (key == "waits_for")
      for (int rank = 0; in >> rank;) status.activity.waits_for.push_back(rank);
    if (key == "does") status.activity.what = io::printable(value);
    if (key == "wait") status.activity.wait = value == kWhileAlive ? Wait::kWhileAlive : Wait::kUntilDeadline;
  }
}

}  // namespace

std::string report_on_ranks(const std::vector<RankStatus>& ranks, double silent) {
  std::string text = "ranks: what each rank does, by its file in the run folder:\n";
  std::vector<int> absent, gone, busy;
  for (const RankStatus& one : ranks) {
    if (!one.known) {
      text += fmt::format("  rank {}: has written nothing\n", one.rank);
      absent.push_back(one.rank);
      continue;
    }
    const bool is_silent = one.age >= silent, waits = !one.activity.waits_for.empty();
    const double seconds = one.activity.seconds + one.age;
    text += fmt::format("  rank {} (process {} on {}): ", one.rank, one.process, one.host);
    text += waits ? fmt::format("waits for {} in {}", list_of(one.activity.waits_for), one.activity.what)
                  : one.activity.what;
    text += fmt::format(", for {:.3g} s", seconds);
    if (is_silent) text += fmt::format("; no sign of life for {:.3g} s", one.age);
    text += '\n';
    if (is_silent)
      gone.push_back(one.rank);
    else if (!waits)
      busy.push_back(one.rank);
  }
  if (!absent.empty())
    text += fmt::format("  {} did not open the run: still starting, ended, or unable to write to the run folder\n",
                        list_of(absent));
  if (!gone.empty())
    text += fmt::format("  {} gave no sign of life: stopped, killed, or on a machine that is cut off\n", list_of(gone));
  if (!busy.empty()) text += fmt::format("  {} did not get ready; see what it does above\n", list_of(busy));
  if (absent.empty() && gone.empty() && busy.empty())
    text += "  all ranks wait: they do not make the same calls, or messages were lost\n";
  return text;
}

RankWatch::RankWatch(Communicator& ranks, const std::string& folder)
    : ranks_(ranks), folder_(folder + "/" + kFolder, open_folder_of(io::FilesBelow(folder)), io::FileOps::real()) {
  write();
  begun_ = written_at(folder_.descriptor(), file_of(ranks_.rank()));
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!ends_) {
      write();
      changed_.wait_for(lock, kEvery, [this] { return ends_; });
    }
  });
  ranks_.set_report([this] { return report(); });
  ranks_.set_patience([this](std::span<const int> missing) { return work_while_alive(missing); });
}

RankWatch::~RankWatch() {
  ranks_.set_patience(nullptr);
  ranks_.set_report(nullptr);
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

/// Replaces the file. Does not sync it, and ignores errors: the file is no part of the run.
void RankWatch::write() const {
  const Communicator::Activity now = ranks_.activity();
  std::string text = fmt::format("rank {} of {}\nhost {}\nprocess {}\nseconds {:.3f}\nwaits_for", ranks_.rank(),
                                 ranks_.size(), host_name(), ::getpid(), now.seconds);
  for (const int rank : now.waits_for) text += fmt::format(" {}", rank);
  text += fmt::format("\nwait {}\ndoes {}\n", now.wait == Wait::kWhileAlive ? kWhileAlive : "until-deadline", now.what);
  io::FileOps& ops = folder_.ops();
  const std::string name = file_of(ranks_.rank()), fresh = name + ".new";
  ops.unlink(folder_.descriptor(), fresh);
  io::Opened file = io::try_open(ops, &io::FileOps::create_exclusive, folder_.descriptor(), fresh);
  if (file.error != 0) return;
  const int error = io::write_all(ops, file.handle.get(), io::bytes_of(text));
  if (error == 0 && file.handle.close() == 0) ops.rename_over(folder_.descriptor(), fresh, name);
}

std::vector<RankStatus> RankWatch::read() const {
  constexpr std::uint64_t kLargest = 1u << 16;
  const std::optional<double> now = written_at(folder_.descriptor(), file_of(ranks_.rank()));
  std::vector<RankStatus> all;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    RankStatus& one = all.emplace_back(RankStatus{.rank = rank});
    const std::optional<double> then = written_at(folder_.descriptor(), file_of(rank));
    if (!then || !now) continue;
    // If the file was written before this process began, and not since, an earlier process of the run left it. (This is
    // not checked if the clock was set back.)
    if (begun_ && *now >= *begun_ && *then + std::chrono::duration<double>(kEvery).count() < *begun_) continue;
    try {
      const std::optional<std::string> text = folder_.read(file_of(rank), kLargest);
      if (!text) continue;
      parse(*text, one);
      one.age = std::max(0.0, *now - *then);
      one.known = true;
    } catch (const StorageError&) {  // the report says that the file is missing
    }
  }
  return all;
}

double RankWatch::silent() const { return std::min(kSilent, ranks_.deadline().count() / 2); }

bool RankWatch::work_while_alive(std::span<const int> missing) const {
  const std::lock_guard lock(mutex_);
  write();  // its time is the current time, with which the others' times are compared
  const std::vector<RankStatus> all = read();
  return std::ranges::all_of(missing, [&](int rank) {
    const RankStatus& one = all[static_cast<std::size_t>(rank)];
    return one.known && one.age < silent() && one.activity.wait == Wait::kWhileAlive;
  });
}

std::string RankWatch::report() const {
  const std::lock_guard lock(mutex_);
  write();  // its time is the current time, with which the others' times are compared
  const std::string text = report_on_ranks(read(), silent());
  try {
    folder_.replace(fmt::format("report-{}.txt", ranks_.rank()), io::bytes_of(text));
  } catch (const StorageError&) {  // the report is also in the text of the error
  }
  return text;
}

}  // namespace binade::amp
