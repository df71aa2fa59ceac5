#include "binade/cuda/device/plan_choice.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>

namespace binade::cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kHead =
    "# Plans that Binade chose by time on this machine; the last line of a key counts. Without this file they are "
    "timed "
    "again,\n# and fresh runs may compute other bits than before.\n";
/// The longest wait for the lock of the file, which another process may hold while it makes one choice, and the pause
/// between two attempts.
constexpr std::chrono::seconds kPatience{30};
constexpr std::chrono::milliseconds kPause{5};

double seconds_since(Clock::time_point begun) { return std::chrono::duration<double>(Clock::now() - begun).count(); }

}  // namespace

PlanStore::~PlanStore() {
  if (file_ >= 0) close(file_);
}

bool PlanStore::fail(const std::string& what) {
  why_ = fmt::format("{}: {}", what, std::strerror(errno));
  unlock();
  return false;
}

bool PlanStore::lock() {
  if (file_ < 0) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file_ < 0) return fail("it cannot be opened");
  }
  const Clock::time_point begun = Clock::now();
  while (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK || Clock::now() - begun > kPatience) return fail("it cannot be locked");
    std::this_thread::sleep_for(kPause);
  }
  return read_appended() || fail("it cannot be read");
}

void PlanStore::unlock() {
  if (file_ >= 0) flock(file_, LOCK_UN);
}

bool PlanStore::read_appended() {
  std::string text;
  std::array<char, 1 << 16> part;
  for (;;) {
    const ssize_t got = pread(file_, part.data(), part.size(), static_cast<off_t>(read_ + text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  torn_ = torn_ && text.empty();
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t to = std::min(text.find('\n', from), text.size());
    const std::string line = text.substr(from, to - from), key = key_of(line);
    torn_ = to == text.size();
    if (!torn_ && !key.empty())
      lines_[key] = line;
    else if (!line.empty() && line[0] != '#')
      ++damaged_;
    from = to + 1;
  }
  read_ += text.size();
  return true;
}

std::string PlanStore::key_of(const std::string& line) {
  if (line.empty() || line[0] == '#') return {};
  for (const char c : line)
    if (c < ' ' || c > '~') return {};
  std::size_t end = line.find(" = ");
  if (end == std::string::npos) end = line.find(" algorithm=");
  return end == std::string::npos ? std::string() : line.substr(0, end);
}

std::optional<std::string> PlanStore::line_of(const std::string& key) const {
  const auto found = lines_.find(key);
  if (found == lines_.end()) return {};
  return found->second;
}

bool PlanStore::add(const std::string& line) {
  const std::string text = (torn_ ? "\n" : "") + (read_ == 0 ? std::string(kHead) : std::string()) + line + "\n";
  const ssize_t written = write(file_, text.data(), text.size());
  if (written > 0) read_ += static_cast<std::size_t>(written);
  torn_ = written >= 0 && static_cast<std::size_t>(written) < text.size();
  if (written != static_cast<ssize_t>(text.size())) {
    why_ = fmt::format("it cannot be written: {}", std::strerror(errno));
    return false;
  }
  lines_[key_of(line)] = line;
  return true;
}

void PlanChooser::configure(const PlanSettings& settings) {
  if (settings.file != settings_.file || !settings.timed) store_.reset();
  settings_ = settings;
  if (settings_.timed && !settings_.file.empty() && !store_) store_.emplace(settings_.file);
}

void PlanChooser::report_once(const std::string& line) {
  if (std::find(reported_.begin(), reported_.end(), line) != reported_.end()) return;
  reported_.push_back(line);
  report_(line);
}

PlanChooser::Selection::Selection(PlanChooser& chooser, const std::string& key)
    : chooser_(chooser), key_(key), begun_(Clock::now()) {
  if (!chooser.store_) return;
  locked_ = chooser.store_->lock();
  if (!locked_) {
    chooser.report_once(
        fmt::format("{}: {}; choices that cannot be kept are not made by time, the first plan of a library "
                    "is taken",
                    chooser.settings_.file, chooser.store_->why()));
    chooser.store_.reset();
    return;
  }
  if (chooser.store_->damaged() > 0)
    chooser.report_once(chooser.settings_.file + ": lines that are no plans are passed by");
  begun_ = Clock::now();
}

PlanChooser::Selection::~Selection() {
  if (locked_) chooser_.store_->unlock();
}

std::optional<std::string> PlanChooser::Selection::line() const {
  return locked_ ? chooser_.store_->line_of(key_) : std::nullopt;
}

bool PlanChooser::Selection::has_time_left() const {
  const double spent = seconds_since(begun_);
  if (chooser_.spent_ + spent < chooser_.settings_.seconds) return spent < PlanSettings::kOfOneKey;
  chooser_.report_once(
      fmt::format("the {:g} seconds for the times of plans are spent: the first is taken of what comes now, "
                  "and kept (BINADE_PLANS_SECONDS)",
                  chooser_.settings_.seconds));
  return false;
}

std::optional<std::size_t> PlanChooser::Selection::least(const std::vector<std::optional<double>>& times) {
  constexpr double kNoise = 1.02;
  double best = std::numeric_limits<double>::infinity();
  for (const std::optional<double>& t : times) best = std::min(best, t.value_or(best));
  for (std::size_t i = 0; i < times.size(); ++i)
    if (times[i] && *times[i] <= kNoise * best) return i;
  return {};
}

void PlanChooser::Selection::keep(const std::string& line) {
  if (has_timed_) chooser_.spent_ += seconds_since(begun_);
  if (locked_ && !chooser_.store_->add(line))
    chooser_.report_once(
        fmt::format("{}: {}; another run may choose otherwise", chooser_.settings_.file, chooser_.store_->why()));
}

}  // namespace binade::cuda
