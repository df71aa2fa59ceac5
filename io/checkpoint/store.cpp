#include "binade/io/checkpoint/store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ranges>
#include <system_error>
#include <tuple>

#include "binade/core/error.h"
#include "binade/core/state_copy.h"

namespace binade::io {

namespace {

constexpr int kAttempts = 3;           // largest number of attempts to write a file
constexpr int kAsideNames = 10000;     // largest number in the new name of a file that is set aside
constexpr std::size_t kKeptAside = 8;  // number of damaged files that are kept

std::string temporary_name(const std::string& file) { return "." + file + ".saving"; }

bool is_own_temporary(const std::string& name) {
  constexpr std::string_view kSavingSuffix = ".saving";
  if (name == std::string(".") + kManifestName + ".tmp") return true;
  return name.size() > kSavingSuffix.size() + 1 && name.front() == '.' && name.ends_with(kSavingSuffix) &&
         step_of_file_name(std::string_view(name).substr(1, name.size() - 1 - kSavingSuffix.size())).has_value();
}

/// The components of the name of a renamed file, like "ckpt-000000000500.h5.corrupt-2": file, reason and number.
struct SetAside {
  std::string file, why;
  int number = 0;
};
std::optional<SetAside> set_aside_from(const std::string& name) {
  static const std::size_t length = checkpoint_file_name(0).size();
  const std::size_t dash = name.rfind('-');
  if (name.size() <= length + 1 || name[length] != '.' || dash <= length || !step_of_file_name(name.substr(0, length)))
    return std::nullopt;
  const std::string why = name.substr(length + 1, dash - length - 1), digits = name.substr(dash + 1);
  const bool ours = why == "corrupt" || why == "misnamed" || why == "abandoned";
  if (!ours || digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != digits.npos)
    return std::nullopt;
  return SetAside{name.substr(0, length), why, std::stoi(digits)};
}

SaveOutcome outcome_of(const SaveRequest& request) {
  return {.step = request.step, .file = checkpoint_file_name(request.step)};
}

/// A storage failure after which another attempt with a new file makes sense.
class RetryableError : public StorageError {
 public:
  using StorageError::StorageError;
};

template <class E = StorageError>
void check_done(int error, const std::string& path, const char* doing, const std::string& name) {
  check<E>(error == 0, "checkpoint {}/{}: cannot {}: {}; the last commit is intact", path, name, doing,
           error_text(error));
}

FileHandle open_to_write(FileOps& ops, const std::string& path) {
  auto [error, folder] = open_checkpoints(ops, path);
  check<StorageError>(error == 0,
                      "open folder {}: {}; wanted a folder that can be read and written, and no link to one", path,
                      error_text(error));
  return std::move(folder);
}

}  // namespace

CheckpointStore::CheckpointStore(const std::string& folder, StoreOptions options)
    : options_(std::move(options)), path_(folder), folder_(open_to_write(*options_.ops, folder)) {
  check<ArgumentError>(options_.keep >= 1, "checkpoint store: wanted keep >= 1, got {}", options_.keep);
  reconcile();
  try {
    writer_ = std::thread([this] { write_loop(); });
  } catch (const std::system_error& error) {
    throw OutOfMemoryError(fmt::format(
        "checkpoint store: no thread can be started ({}): memory is short, or the limit on processes is reached",
        error.what()));
  }
}

CheckpointStore::~CheckpointStore() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  writer_.join();
}

void CheckpointStore::reconcile() {
  FileOps& ops = *options_.ops;
  std::vector<std::string> names;
  // Files that a killed process renamed may be visible but not yet durable, so the folder is synced before they are
  // used.
  check_done(ops.sync(folder_.get()), path_, "sync", ".");
  check_done(ops.list(folder_.get(), names), path_, "list", ".");
  std::vector<std::byte> text;
  const int error = read_file(ops, folder_.get(), kManifestName, kManifestLimit, text);
  // An unreadable MANIFEST is an error, because it alone records which checkpoints are good and which one is
  // the best.
  FileStatus status;
  const bool readable = error == 0 || error == ENOENT || error == EFBIG ||
                        (ops.status_of(folder_.get(), kManifestName, status) == 0 && !status.regular);
  check<StorageError>(
      readable, "checkpoints in {}: cannot read {}: {}; if that persists, remove it: it is rebuilt from the files",
      path_, kManifestName, error_text(error));
  ManifestReading reading;
  if (error == 0)
    reading = manifest_from({reinterpret_cast<const char*>(text.data()), text.size()});
  else
    reading.whole = false;
  std::vector<ManifestEntry> listed = std::move(reading.manifest.entries);
  manifest_.last_trouble = reading.manifest.last_trouble;
  for (const ManifestEntry& e : listed) listed_on_disk_.insert(e.file);
  bool changed = !reading.whole;
  for (const std::string& name : names) {
    if (is_own_temporary(name)) {
      ops.unlink(folder_.get(), name);
      continue;
    }
    const std::optional<std::int64_t> step = step_of_file_name(name);
    if (!step) continue;  // not a checkpoint
    const auto known = std::find_if(listed.begin(), listed.end(),
                                    [&](const ManifestEntry& e) { return e.file == name; });
    if (known != listed.end()) {
      manifest_.entries.push_back(*known);
      continue;
    }
    changed = true;
    try {
      const CheckpointImage image = read_checkpoint_image(ops, folder_.get(), name, options_.largest_file, name);
      ManifestEntry entry{*step, name, image.bytes().size(), image_sha256(image.bytes()), CheckpointStatus::kCommitted,
                          true,  {}};
      try {
        check_name_fits(name, verify_checkpoint(image.bytes(), "checkpoint " + name));
        entry.status = CheckpointStatus::kVerified;
      } catch (const CheckpointError&) {
        // The file is intact, but this version of Binade cannot read its format; load_newest() reports that.
      }
      manifest_.entries.push_back(std::move(entry));
    } catch (const UnreadableCheckpointError& e) {
      options_.warn(fmt::format("{}; left as it is", e.what()));
    } catch (const MisnamedCheckpointError& e) {
      options_.warn(fmt::format("{}; moved to {}", e.what(), set_aside(name, "misnamed")));
    } catch (const NoCheckpointError& e) {
      options_.warn(fmt::format("{}; moved to {}", e.what(), set_aside(name, "corrupt")));
    }
  }
  changed = changed || manifest_.entries.size() != listed.size();
  if (changed && !(manifest_.entries.empty() && error == ENOENT)) write_manifest(manifest_);
  prune_corrupt();
}

bool CheckpointStore::saving() const {
  const std::scoped_lock lock(mutex_);
  return busy_;
}

bool CheckpointStore::start_save(SaveRequest request) {
  std::list<SaveOutcome> outcome;
  outcome.push_back(outcome_of(request));
  {
    const std::scoped_lock lock(mutex_);
    if (busy_) return false;
    busy_ = true;
    request_ = std::move(request);
    expected_ = std::move(outcome);
  }
  changed_.notify_all();
  return true;
}

void CheckpointStore::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
}

std::vector<SaveOutcome> CheckpointStore::finished() {
  const std::scoped_lock lock(mutex_);
  std::vector<SaveOutcome> outcomes(finished_.begin(), finished_.end());
  finished_.clear();
  return outcomes;
}

void CheckpointStore::save(SaveRequest request) {
  SaveOutcome outcome = outcome_of(request);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !busy_; });
  busy_ = true;
  lock.unlock();
  commit(request, outcome);
  lock.lock();
  busy_ = false;
  if (outcome.error) std::rethrow_exception(outcome.error);
}

void CheckpointStore::write_loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return request_.has_value() || closing_; });
    if (!request_) return;
    SaveRequest request = std::move(*request_);
    request_.reset();
    lock.unlock();
    commit(request, expected_.front());
    lock.lock();
    finished_.splice(finished_.end(), expected_);
    busy_ = false;
    changed_.notify_all();
  }
}

/// Reports every exception in `outcome`, because no function above this one in the writer thread could catch it.
void CheckpointStore::commit(SaveRequest& request, SaveOutcome& outcome) noexcept {
  constexpr const char* kNoMemory = "out of memory";  // so short that std::string stores it without allocation
  const auto begin = std::chrono::steady_clock::now();
  try {
    try {
      encode_and_commit(request, outcome);
    } catch (const std::bad_alloc&) {
      throw OutOfMemoryError(fmt::format("checkpoint of step {}: no memory to build it", request.step));
    }
  } catch (const std::bad_alloc&) {
    outcome.error = std::current_exception();
    outcome.problem = kNoMemory;
  } catch (const std::exception& e) {
    outcome.error = std::current_exception();
    try {
      outcome.problem = e.what();
    } catch (const std::bad_alloc&) {
      outcome.problem = kNoMemory;
    }
  } catch (...) {  // an object of another type, thrown by a function of the request or by a test
    outcome.error = std::current_exception();
    outcome.problem = "unknown error";
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void CheckpointStore::encode_and_commit(SaveRequest& request, SaveOutcome& outcome) {
  check<ArgumentError>(step_of_file_name(outcome.file) == request.step, "checkpoint: step {} does not fit 12 digits",
                       request.step);
  request.state = on_host(request.state);  // the assignment frees the tensors on the device
  if (const std::optional<std::string> non_finite = first_non_finite(request.state))
    throw NumericError(fmt::format("checkpoint of step {}: {}, but all numbers of a state must be finite; nothing was written", request.step, *non_finite));
  if (request.state_hash.empty() && request.hash) request.state_hash = request.hash(request.state);
  const CheckpointImage image = encode_checkpoint(request.state, request.state_hash);
  request.state = StateDict();
  // The image must pass the reader's checks before it replaces anything.
  const CheckpointInfo info = verify_checkpoint(image.bytes());
  check<ArgumentError>(!info.step || *info.step == request.step,
                       "checkpoint of step {}: wanted a state of that step, got one whose progress/step is {}",
                       request.step, info.step.value_or(0));
  if (request.before) request.before();
  write_and_publish(image, outcome.file, request.supersedes);
  outcome.committed = true;
  outcome.bytes = image.bytes().size();
  record({request.step, outcome.file, image.bytes().size(), image_sha256(image.bytes()), CheckpointStatus::kVerified,
          true, request.score});
}

void CheckpointStore::write_and_publish(const CheckpointImage& image, const std::string& name, bool supersedes) {
  FileOps& ops = *options_.ops;
  if (same_on_disk(image, name)) return sync_folder(name);  // the file exists, but an earlier sync may have failed
  const std::string temporary = temporary_name(name);
  for (int attempt = 1;; ++attempt) {
    try {
      write_temporary(image, temporary);
      break;
    } catch (const RetryableError&) {
      ops.unlink(folder_.get(), temporary);
      // After a failed sync the file's contents are undefined; retry with a new file.
      if (attempt == kAttempts) throw;
      std::this_thread::sleep_for(attempt * options_.pause);
    } catch (const std::exception&) {
      ops.unlink(folder_.get(), temporary);
      throw;
    }
  }
  int error = remove_from_manifest(name);
  if (error == 0)
    error = supersedes ? ops.rename_over(folder_.get(), temporary, name)
                       : move_without_replacing(ops, folder_.get(), temporary, name, Moving::kMayLose);
  if (error == EEXIST) error = set_aside_and_rename(temporary, name);
  if (error != 0) ops.unlink(folder_.get(), temporary);
  check_done(error, path_, "rename into place", name);
  sync_folder(name);
}

/// Removes the entries for which `is_gone` returns true from manifest_. Returns a copy of the rest, to be written.
template <class F>
Manifest CheckpointStore::remove_entries(const F& is_gone) {
  const std::scoped_lock lock(mutex_);
  Manifest now = manifest_;  // comes first, so that a failed allocation changes nothing
  std::erase_if(now.entries, is_gone);
  std::erase_if(manifest_.entries, is_gone);
  return now;
}

/// Removes the entry of `name` from MANIFEST before another file takes the name, because the entry may describe the old
/// file as good. Returns 0 or errno.
int CheckpointStore::remove_from_manifest(const std::string& name) {
  if (!listed_on_disk_.contains(name)) return 0;
  return replace_manifest(remove_entries([&](const ManifestEntry& e) { return e.file == name; }));
}

/// Sets `aside` to NAME.WHY-1, NAME.WHY-2, … and calls `move`, which renames a file to `aside`, until it returns
/// another result than EEXIST. Returns that result, 0 or errno.
template <class F>
int CheckpointStore::with_name_aside(const std::string& name, const std::string& why, std::string& aside,
                                     const F& move) {
  int error = EEXIST;
  const int first = next_aside(name, why);
  for (int n = first; error == EEXIST && n < first + kAsideNames; ++n) {
    aside = fmt::format("{}.{}-{}", name, why, n);
    error = move();
  }
  return error;
}

/// Replaces the existing file `name`, which holds another state of the same step (as after a rollback), by `temporary`.
/// The old file gets a second name, and the new one takes `name` in one rename, so that the step always has a
/// checkpoint. Returns 0 or errno.
int CheckpointStore::set_aside_and_rename(const std::string& temporary, const std::string& name) {
  FileOps& ops = *options_.ops;
  std::string aside;
  int error = with_name_aside(name, "abandoned", aside, [&] { return ops.link(folder_.get(), name, aside); });
  if (error == EPERM || error == ENOSYS || error == ENOTSUP) {  // without hard links the name is briefly missing
    aside = set_aside(name, "abandoned");
    error = move_without_replacing(ops, folder_.get(), temporary, name, Moving::kMayLose);
  } else if (error == 0) {
    error = ops.sync(folder_.get());
    if (error == 0) error = ops.rename_over(folder_.get(), temporary, name);
  }
  if (error == 0)
    options_.warn(fmt::format("checkpoint {}: it replaces another one of this step, which is now {}", name, aside));
  return error;
}

void CheckpointStore::sync_folder(const std::string& name) {
  const int error = options_.ops->sync(folder_.get());
  check<StorageError>(
      error == 0, "checkpoint {}/{}: it was written, but the folder could not be synced: {}; a power cut may lose it",
      path_, name, error_text(error));
}

void CheckpointStore::write_temporary(const CheckpointImage& image, const std::string& temporary) {
  FileOps& ops = *options_.ops;
  Opened opened = try_open(ops, &FileOps::create_exclusive, folder_.get(), temporary);
  if (opened.error == EEXIST) {
    check_done(ops.unlink(folder_.get(), temporary), path_, "remove a stale file", temporary);
    opened = try_open(ops, &FileOps::create_exclusive, folder_.get(), temporary);
  }
  check_done(opened.error, path_, "create", temporary);
  FileHandle& file = opened.handle;
  check_done(write_all(ops, file.get(), image.bytes()), path_, "write", temporary);
  check_done<RetryableError>(ops.sync(file.get()), path_, "sync", temporary);
  ops.drop_cache(file.get());
  check_done<RetryableError>(file.close(), path_, "close", temporary);
  compare_with_disk(image, temporary);
}

void CheckpointStore::compare_with_disk(const CheckpointImage& image, const std::string& name) {
  FileOps& ops = *options_.ops;
  const auto [error, file] = try_open(ops, &FileOps::open_read, folder_.get(), name);
  check_done<RetryableError>(error, path_, "open to read back", name);
  FileStatus status;
  check_done<RetryableError>(ops.status(file.get(), status), path_, "read back", name);
  bool same = status.regular && status.bytes == image.bytes().size();
  std::vector<std::byte> chunk(std::min(image.bytes().size(), std::size_t{4} << 20));
  for (std::size_t at = 0; same && at < image.bytes().size(); at += chunk.size()) {
    const auto wanted = image.bytes().subspan(at, std::min(chunk.size(), image.bytes().size() - at));
    const std::span<std::byte> got = std::span(chunk).first(wanted.size());
    check_done<RetryableError>(read_exactly(ops, file.get(), at, got), path_, "read back", name);
    same = std::memcmp(wanted.data(), got.data(), wanted.size()) == 0;
  }
  check<RetryableError>(
      same, "checkpoint {}/{}: the bytes read back differ from those written; the last commit is intact", path_, name);
}

bool CheckpointStore::same_on_disk(const CheckpointImage& image, const std::string& name) {
  FileStatus status;
  if (options_.ops->status_of(folder_.get(), name, status) != 0) return false;
  try {
    compare_with_disk(image, name);
    return true;
  } catch (const StorageError&) {
    return false;
  }
}

int CheckpointStore::move_aside(const std::string& name, const std::string& why, std::string& aside) {
  return with_name_aside(name, why, aside,
                         [&] { return move_without_replacing(*options_.ops, folder_.get(), name, aside); });
}

std::string CheckpointStore::set_aside(const std::string& name, const std::string& why) {
  std::string aside;
  const int error = move_aside(name, why, aside);
  return error == 0 ? aside : fmt::format("nowhere ({})", error_text(error));
}

/// Returns the number for the next file that is set aside as "NAME.WHY-number": one more than the highest that exists,
/// so that a newer file has a higher number.
int CheckpointStore::next_aside(const std::string& name, const std::string& why) {
  std::vector<std::string> names;
  options_.ops->list(folder_.get(), names);  // if this fails, the caller searches for a free name
  int next = 1;
  for (const std::string& existing : names)
    if (const auto aside = set_aside_from(existing); aside && aside->file == name && aside->why == why)
      next = std::max(next, aside->number + 1);
  return next;
}

/// Deletes all but the newest damaged checkpoints; otherwise repeated restarts could fill the disk.
void CheckpointStore::prune_corrupt() {
  std::vector<std::string> names;
  if (options_.ops->list(folder_.get(), names) != 0) return;
  std::vector<std::tuple<std::string, int, std::string>> corrupt;  // file, number, name
  for (const std::string& name : names)
    if (const auto aside = set_aside_from(name); aside && aside->why == "corrupt")
      corrupt.emplace_back(aside->file, aside->number, name);
  if (corrupt.size() <= kKeptAside) return;
  std::sort(corrupt.begin(), corrupt.end());
  corrupt.resize(corrupt.size() - kKeptAside);
  for (const auto& [file, number, name] : corrupt) options_.ops->unlink(folder_.get(), name);
  options_.warn(fmt::format("checkpoints in {}: the newest {} damaged ones are kept, {} were deleted", path_,
                            kKeptAside, corrupt.size()));
}

void CheckpointStore::record(ManifestEntry entry) {
  Manifest now;
  std::vector<std::string> superfluous;
  {
    const std::scoped_lock lock(mutex_);
    std::vector<ManifestEntry> entries = manifest_.entries;
    const std::int64_t step = entry.step;
    std::erase_if(entries, [&](const ManifestEntry& e) { return e.step == step; });
    entries.push_back(std::move(entry));
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
    const std::vector<bool> keep = kept_by_ring(entries, options_.keep);
    std::vector<ManifestEntry> left;
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (keep[i])
        left.push_back(entries[i]);
      else
        superfluous.push_back(entries[i].file);
    now = {.entries = left, .last_trouble = manifest_.last_trouble};
    manifest_.entries = std::move(left);  // comes last, so that a failed allocation above changes nothing
  }
  write_manifest(now);
  for (const std::string& file : superfluous) options_.ops->unlink(folder_.get(), file);
}

int CheckpointStore::replace_manifest(const Manifest& manifest) {
  std::set<std::string> listed;
  for (const ManifestEntry& e : manifest.entries) listed.insert(e.file);
  const int error = write_file_atomically(*options_.ops, folder_.get(), kManifestName, bytes_of(to_text(manifest)));
  if (error == 0)
    listed_on_disk_ = std::move(listed);
  else  // the old or the new version may be on disk
    listed_on_disk_.merge(listed);
  return error;
}

void CheckpointStore::write_manifest(const Manifest& manifest) {
  if (const int error = replace_manifest(manifest))
    options_.warn(fmt::format("{}/{}: {}; the checkpoints themselves are whole, and it is rebuilt from them", path_,
                              kManifestName, error_text(error)));
}

void CheckpointStore::step_was_clean(std::int64_t step) {
  const std::scoped_lock lock(mutex_);
  for (ManifestEntry& e : manifest_.entries)
    if (e.status == CheckpointStatus::kVerified && e.step < step &&
        step - std::max(e.step, manifest_.last_trouble) >= options_.good_after)
      e.status = CheckpointStatus::kGood;
}

void CheckpointStore::step_had_trouble(std::int64_t step) {
  const std::scoped_lock lock(mutex_);
  manifest_.last_trouble = std::max(manifest_.last_trouble, step);
}

LoadedCheckpoint CheckpointStore::load_newest() {
  wait();
  FileOps& ops = *options_.ops;
  const std::vector<std::string> names = newest_first(ops, folder_.get(), path_);
  LoadedCheckpoint loaded;
  std::vector<std::string> lost;
  for (const std::string& name : names) {
    std::string why;
    const Obstacle obstacle = try_load(ops, folder_.get(), name, options_.largest_file, loaded, why);
    if (obstacle == Obstacle::kNone) break;
    if (obstacle != Obstacle::kUnreadable) {
      why += "; moved to " + set_aside(name, obstacle == Obstacle::kMisnamed ? "misnamed" : "corrupt");
      lost.push_back(name);  // the entry of an unreadable file stays in MANIFEST
    }
    options_.warn(why + "; trying the one before");
  }
  if (!lost.empty()) {
    write_manifest(
        remove_entries([&](const ManifestEntry& e) { return std::ranges::find(lost, e.file) != lost.end(); }));
    prune_corrupt();
  }
  if (loaded.file.empty()) throw_no_checkpoint(path_, names.size());
  warn_about_left_out(loaded.info, loaded.file, options_.warn);
  return loaded;
}

std::optional<LoadedCheckpoint> CheckpointStore::load_for_rollback(std::int64_t newest, std::int64_t after) {
  wait();
  std::vector<ManifestEntry> candidates = entries();
  std::erase_if(candidates, [&](const ManifestEntry& e) {
    return e.step > newest || e.step <= after || e.status == CheckpointStatus::kCommitted;
  });
  const auto rank = [](const ManifestEntry& e) { return std::pair(e.status == CheckpointStatus::kGood, e.step); };
  std::ranges::sort(candidates, std::greater<>(), rank);
  for (const ManifestEntry& candidate : candidates) {
    LoadedCheckpoint loaded;
    std::string why;
    if (try_load(*options_.ops, folder_.get(), candidate.file, options_.largest_file, loaded, why) == Obstacle::kNone)
      return loaded;
    options_.warn(why + "; trying another");
  }
  return std::nullopt;
}

void CheckpointStore::abandon_after(std::int64_t step) {
  wait();
  std::vector<std::string> later;
  for (const ManifestEntry& e : entries())
    if (e.step > step) later.push_back(e.file);
  const Manifest now = remove_entries([&](const ManifestEntry& e) { return e.step > step; });
  // The newest is renamed first. If the process is killed before the end, the checkpoints up to some step remain,
  // without a gap.
  for (const std::string& file : std::views::reverse(later)) {
    std::string aside;
    const int error = move_aside(file, "abandoned", aside);
    check<StorageError>(
        error == 0 || error == ENOENT,
        "checkpoint {}/{}: it was abandoned by a rollback, and cannot be renamed {}: {}; a resume would "
        "find it",
        path_, file, aside, error_text(error));
  }
  const int error = options_.ops->sync(folder_.get());
  check<StorageError>(
      error == 0,
      "checkpoints in {}: those abandoned by a rollback were renamed, but the folder could not be synced: "
      "{}; a power cut may bring them back",
      path_, error_text(error));
  write_manifest(now);
}

std::vector<ManifestEntry> CheckpointStore::entries() const {
  const std::scoped_lock lock(mutex_);
  return manifest_.entries;
}

std::vector<bool> kept_by_ring(const std::vector<ManifestEntry>& entries, int keep) {
  const std::size_t count = entries.size();
  const auto ring = static_cast<std::size_t>(keep);
  std::vector<bool> kept(count, false);
  std::optional<std::size_t> good, candidate;
  for (std::size_t i = 0; i < count; ++i) {
    const ManifestEntry& e = entries[i];
    kept[i] = i + ring >= count;
    if (e.status == CheckpointStatus::kGood) {
      good = i;
      candidate.reset();
    } else if (e.status == CheckpointStatus::kVerified && !candidate) {
      candidate = i;
    }
  }
  for (const std::optional<std::size_t>& pinned : {good, candidate})
    if (pinned) kept[*pinned] = true;
  if (const std::vector<std::size_t> best = best_first(entries); !best.empty()) kept[best.front()] = true;
  return kept;
}

}  // namespace binade::io
