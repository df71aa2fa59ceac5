#include "tests/crash/story.h"

#include <fmt/core.h>

#include <algorithm>

#include "binade/core/error.h"

namespace binade::crash {

namespace {

constexpr const char* kFolder = "/runs/a";
constexpr const char* kConfig = "{\"steps\":9}\n";

bool holds(const std::vector<int>& versions, int version) { return std::ranges::count(versions, version) > 0; }

void add(std::vector<int>& versions, int version) {
  if (!holds(versions, version)) versions.push_back(version);
}

io::SaveRequest request_for(std::int64_t step, int version, std::optional<io::Score> score) {
  StateDict state;
  std::vector<float> values(500);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i) + 1000.0f * static_cast<float>(version);
  state.put("model/weight", Tensor::from(values, {500}));
  state.put("progress/step", step);
  state.put("progress/version", std::int64_t{version});
  return {step, std::move(state), std::string(64, '0'), score};
}

/// Returns the checkpoint file of a version. Files are cached, because many stories need the same ones.
const Bytes& file_of(std::int64_t step, int version) {
  static std::map<std::pair<std::int64_t, int>, Bytes> made;
  Bytes& bytes = made[{step, version}];
  if (bytes.empty()) {
    const io::CheckpointImage image = io::encode_checkpoint(request_for(step, version, {}).state, std::string(64, '0'));
    bytes.assign(image.bytes().begin(), image.bytes().end());
  }
  return bytes;
}

std::string text_of(const std::vector<int>& versions) {
  std::string text;
  for (const int v : versions) text += fmt::format("{}{}", text.empty() ? "" : " ", v);
  return "{" + text + "}";
}

}  // namespace

Story::Story(std::uint64_t seed, int actions, const Manner& manner)
    : draws_(seed),
      looks_(manner.looks),
      keep_(1 + static_cast<int>(draws_.below(3))),
      disk_({Node{.folder = true}}, {.rename_no_replace = !draws_.one_in(4), .link = true}),
      faulty_(disk_),
      stage_(faulty_),
      outside_(stage_) {
  stage_.forget(manner.forgotten);
  promises_.emplace_back();
  begin();
  for (int i = 0; i < actions && trouble_.empty(); ++i) act();
}

Story::~Story() = default;

io::StoreOptions Story::options(io::FileOps& ops, std::vector<std::string>& warnings) const {
  io::StoreOptions options;
  options.keep = keep_;
  options.good_after = 2;
  options.ops = &ops;
  options.pause = std::chrono::milliseconds(0);
  options.warn = [&warnings](const std::string& line) {
    const UncountedMemory laboratory;
    warnings.push_back(line);
  };
  return options;
}

const Promise& Story::promise_at(std::size_t instant) const {
  const auto after = std::ranges::find_if(promises_, [&](const Promise& p) { return p.from > instant; });
  return *(after - 1);
}

void Story::promise(Promise next) {
  next.from = disk_.now();
  promises_.push_back(std::move(next));
}

void Story::begin() {
  folder_.emplace(io::RunFolder::create(kFolder, outside_));
  open();
  if (draws_.one_in(3)) {  // a checkpoint alone, without config.json, counts as a run
    save();
    promises_.back().begun = true;
  }
  folder_->write_config(kConfig);
  Promise next = promises_.back();
  next.begun = next.configured = true;
  promise(next);
}

void Story::open() {
  const std::string folder = folder_->checkpoints();
  const io::StoreOptions how = options(outside_, warnings_);
  ask([&] { store_ = std::make_unique<io::CheckpointStore>(folder, how); });
}

void Story::act() {
  const bool several = promises_.back().kept.size() >= 2, any = !promises_.back().kept.empty();
  const std::size_t what = draws_.below(20);
  if (what < 2 && several)
    roll_back();
  else if (what < 4 && any)
    save_another_of_the_same_step();
  else if (what < 7)
    kill(several && draws_.one_in(2));
  else if (what < 8 && several)
    rot();
  else
    save();
  if (trouble_.empty()) look("an action", true);
}

void Story::look(const char* after, bool exactly) {
  if (!looks_) return;
  if (std::string wrong = judge(disk_.live(), promises_.back(), exactly); !wrong.empty())
    trouble_ = fmt::format("after {}, without a power cut: {}", after, wrong);
}

void Story::recover(MemoryDisk& disk) const {
  std::vector<std::string> warnings;
  const io::RunFolder folder = io::RunFolder::resume(kFolder, disk);
  io::CheckpointStore store(folder.checkpoints(), options(disk, warnings));
  try {
    store.load_newest();
  } catch (const NoCheckpointError&) {
  }
}

int Story::make_version(std::int64_t step) {
  const int version = static_cast<int>(versions_.size());
  std::optional<io::Score> score;
  if (draws_.one_in(3)) score = io::Score{static_cast<double>(draws_.below(100))};
  versions_.push_back({step, score, file_of(step, version)});
  return version;
}

int Story::version_in(const Bytes& file) const {
  const auto found = std::ranges::find_if(versions_, [&](const Version& v) { return v.image == file; });
  return found == versions_.end() ? Promise::kNone : static_cast<int>(found - versions_.begin());
}

std::vector<int> Story::versions_of(const std::vector<io::ManifestEntry>& entries) const {
  std::vector<int> versions;
  for (const io::ManifestEntry& e : entries) {
    const auto found = std::ranges::find_if(versions_, [&](const Version& v) {
      return v.step == e.step && io::image_sha256(v.image) == e.sha256;
    });
    if (found != versions_.end()) versions.push_back(static_cast<int>(found - versions_.begin()));
  }
  return versions;
}

/// Records the promise while a save runs: the old or the new state can be loaded. The checkpoints exist that the ring
/// keeps whether or not the save completes.
void Story::promise_save(int version) {
  Promise during = promises_.back();
  const std::int64_t step = versions_[static_cast<std::size_t>(version)].step;
  during.doing = fmt::format("save version {} of step {}", version, step);
  std::vector<io::ManifestEntry> entries = store_->entries();
  std::erase_if(entries, [&](const io::ManifestEntry& e) { return e.step == step; });
  entries.push_back({.step = step,
                     .status = io::CheckpointStatus::kVerified,
                     .score = versions_[static_cast<std::size_t>(version)].score});
  std::ranges::sort(entries, {}, &io::ManifestEntry::step);
  const std::vector<bool> stays = io::kept_by_ring(entries, keep_);
  std::erase_if(during.kept, [&](int old) {
    const std::int64_t s = versions_[static_cast<std::size_t>(old)].step;
    // The old state of the step is renamed; it is deleted only if the new save supersedes it.
    if (s == step && old != version && !supersedes_) add(during.aside, old);
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (entries[i].step == s) return old != version && (s == step || !stays[i]);
    return true;
  });
  // MANIFEST drops the entry of the replaced state before it is replaced.
  std::erase_if(during.facts, [&](const io::ManifestEntry& fact) { return fact.step == step; });
  add(during.loadable, version);
  promise(during);
}

void Story::promise_what_is_there() {
  Promise next = promises_.back();
  next.kept = versions_of(store_->entries());
  // If the disk was too full for a new MANIFEST, it has the old one, without the new entries.
  if (std::ranges::none_of(warnings_, [](const std::string& w) { return w.find("rebuilt from them") != w.npos; }))
    next.facts = store_->entries();
  warnings_.clear();
  promise(next);
}

void Story::save_version(int version) {
  const Version& v = versions_[static_cast<std::size_t>(version)];
  io::SaveRequest request = request_for(v.step, version, v.score);
  request.supersedes = supersedes_;
  if (behind_) return save_behind(std::move(request));
  ask([&] { store_->save(std::move(request)); });
}

/// Saves in the background, as training does, and throws the error that the writer reports.
void Story::save_behind(io::SaveRequest request) {
  bool taken = false;
  std::vector<io::SaveOutcome> outcomes;
  try {
    ask([&] {
      taken = store_->start_save(std::move(request));
      store_->wait();
      outcomes = store_->finished();
    });
  } catch (const std::bad_alloc&) {
    if (!taken) throw;
    outcomes = store_->finished();  // the writer reports the outcome of a started save when memory is available again
  }
  check<NumericError>(outcomes.size() == 1, "of one save in the background {} were reported", outcomes.size());
  if (outcomes.front().error) std::rethrow_exception(outcomes.front().error);
}

void Story::save() {
  for (const std::int64_t end = clean_ + static_cast<std::int64_t>(draws_.below(4)); clean_ < end;)
    store_->step_was_clean(++clean_);
  if (draws_.one_in(10)) store_->step_had_trouble(clean_);
  const bool again = draws_.one_in(12) && promises_.back().loadable.back() != Promise::kNone;
  const int version = again ? promises_.back().loadable.back() : make_version(clean_ = clean_ + 1);
  const Promise before = promises_.back();
  supersedes_ = false;
  promise_save(version);
  const bool full = draws_.one_in(6) && !faulty_.armed();  // at most one fault at a time
  stage_.set_manifest_full(full);
  try {
    save_version(version);
  } catch (
      const StorageError&) {  // MANIFEST lists an older file of this name, and the disk is too full to remove the entry
    if (!full) throw;
    stage_.set_manifest_full(false);
    Promise next = before;  // with the old `facts`: the new entries could not be written
    next.kept = versions_of(store_->entries());
    warnings_.clear();
    return promise(std::move(next));
  }
  stage_.set_manifest_full(false);
  Promise done = promises_.back();
  done.loadable = {version};
  done.rotten = false;
  promise(done);
  promise_what_is_there();
}

void Story::save_another_of_the_same_step() {
  const int old = promises_.back().kept.back();
  const int version = make_version(versions_[static_cast<std::size_t>(old)].step);
  supersedes_ = version % 2 == 1;
  promise_save(version);
  stage_.set_manifest_full(false);
  save_version(version);
  Promise done = promises_.back();
  done.loadable = {version};
  add(done.foreign, old);
  promise(done);
  promise_what_is_there();
}

/// Records the promise while a rollback runs: the target or one of the abandoned checkpoints can be loaded.
void Story::promise_rollback(std::int64_t step) {
  Promise during = promises_.back();
  during.doing = fmt::format("roll back to step {}", step);
  during.loadable.clear();
  int target = Promise::kNone;
  for (const int v : promises_.back().kept) {
    if (versions_[static_cast<std::size_t>(v)].step > step) {
      add(during.loadable, v);
      add(during.aside, v);
    } else {
      target = v;  // `kept` is in ascending order of steps
    }
  }
  std::erase_if(during.kept, [&](int v) { return versions_[static_cast<std::size_t>(v)].step > step; });
  // A checkpoint that the ring deleted may reappear after a power cut, if its deletion is not synced yet.
  for (std::size_t v = 0; v < versions_.size(); ++v)
    if (versions_[v].step > step && !holds(during.foreign, static_cast<int>(v)))
      add(during.loadable, static_cast<int>(v));
  add(during.loadable, target);
  promise(during);
}

void Story::roll_back() {
  const std::vector<int> kept = promises_.back().kept;
  const int target = kept[draws_.below(kept.size() - 1)];
  const std::int64_t step = versions_[static_cast<std::size_t>(target)].step;
  promise_rollback(step);
  stage_.set_manifest_full(draws_.one_in(3));
  ask([&] { store_->abandon_after(step); });
  stage_.set_manifest_full(false);
  Promise done = promises_.back();
  done.loadable = {target};
  for (std::size_t v = 0; v < versions_.size(); ++v)
    if (versions_[v].step > step) add(done.foreign, static_cast<int>(v));
  promise(done);
  promise_what_is_there();
  clean_ = step;
}

void Story::kill(bool rolling_back) {
  stage_.kill_before(static_cast<int>(draws_.below(24)));
  try {
    rolling_back ? roll_back() : save();
    stage_.spare();
    return;  // the action had fewer calls: it was not killed
  } catch (const Killed&) {
  }
  stage_.spare();
  stage_.set_manifest_full(false);
  look("a kill", false);
  if (!trouble_.empty()) return;
  store_.reset();
  folder_.reset();
  folder_.emplace(io::RunFolder::resume(kFolder, outside_));
  open();
  Promise next = promises_.back();
  next.doing += ", killed, opened again";
  try {
    const io::LoadedCheckpoint loaded = store_->load_newest();
    const auto version = static_cast<int>(loaded.state.integer("progress/version"));
    if (!holds(next.loadable, version)) trouble_ = fmt::format("after a kill version {} was loaded", version);
    next.loadable = {version};
    clean_ = loaded.step;
  } catch (const NoCheckpointError&) {
    next.loadable = {Promise::kNone};
    clean_ = 0;
  }
  // If an interrupted rollback did not rename a checkpoint, it is an ordinary one again, and the ring may delete it.
  const std::vector<int> listed = versions_of(store_->entries());
  std::erase_if(next.aside, [&](int v) { return holds(listed, v); });
  promise(next);
  promise_what_is_there();
}

void Story::rot() {
  Promise next = promises_.back();
  next.doing = "a file rots";
  const int sick = next.kept.back();
  next.kept.pop_back();
  std::erase(next.aside, sick);
  next.loadable.clear();
  // A checkpoint that the ring deleted may reappear after a power cut, if its deletion is not synced yet.
  for (std::size_t v = 0; v < versions_.size(); ++v)
    if (versions_[v].step < versions_[static_cast<std::size_t>(sick)].step && !holds(next.foreign, static_cast<int>(v)))
      add(next.loadable, static_cast<int>(v));
  add(next.loadable, sick);
  next.rotten = true;
  promise(next);
  const Version v = versions_[static_cast<std::size_t>(sick)];
  const std::string path = fmt::format("{}/checkpoints/{}", kFolder, io::checkpoint_file_name(v.step));
  disk_.rot(path, draws_.below(v.image.size()));
  next.loadable.pop_back();
  Version rotten = v;  // no longer a valid checkpoint, but it must not be deleted
  rotten.image = disk_.live()[static_cast<std::size_t>(node_at(disk_.live(), path))].bytes;
  versions_.push_back(rotten);
  next.aside.push_back(static_cast<int>(versions_.size()) - 1);
  promise(next);
  clean_ = store_->load_newest().step;
  next.rotten = false;
  next.loadable = {next.kept.back()};
  promise(next);
  warnings_.clear();
  promise_what_is_there();
}

std::string Story::judge(const DiskImage& left, const Promise& promise, bool exactly, bool goes_on) const {
  MemoryDisk disk(left);
  std::vector<std::string> warnings;
  try {
    if (!promise.begun) {
      if (!io::RunFolder::holds_a_run(kFolder, disk)) io::RunFolder::create(kFolder, disk);
      return "";
    }
    const io::RunFolder folder = io::RunFolder::resume(kFolder, disk);
    if (promise.configured && folder.read_config() != kConfig) return "config.json is not what was written";
    io::CheckpointStore store(folder.checkpoints(), options(disk, warnings));

    const auto file = [&](const std::string& name) -> const Bytes& {
      return disk.live()[static_cast<std::size_t>(node_at(disk.live(), folder.checkpoints() + "/" + name))].bytes;
    };
    int loaded = Promise::kNone;
    try {
      const io::LoadedCheckpoint newest = store.load_newest();
      loaded = static_cast<int>(newest.state.integer("progress/version"));
      if (version_in(file(newest.file)) != loaded || newest.state.integer("progress/step") != newest.step)
        return fmt::format("{} is not what was saved", newest.file);
    } catch (const NoCheckpointError&) {
    }
    if (!holds(promise.loadable, loaded))
      return fmt::format("version {} was loaded, promised was one of {}", loaded, text_of(promise.loadable));
    if (!promise.rotten && !warnings.empty()) return "a warning: " + warnings.front();

    const std::vector<io::ManifestEntry> entries = store.entries();
    std::vector<int> listed;
    for (const io::ManifestEntry& e : entries) {
      const Bytes& bytes = file(e.file);
      if (e.bytes != bytes.size() || e.sha256 != io::image_sha256(bytes))
        return fmt::format("MANIFEST and {} do not agree", e.file);
      const int version = version_in(bytes);
      if (version == Promise::kNone) return e.file + " is a mixture";
      if (holds(promise.foreign, version)) return fmt::format("{} is of the run that was left", e.file);
      listed.push_back(version);
    }
    for (const int v : promise.kept)
      if (!holds(listed, v)) return fmt::format("version {} was kept and is gone; there are {}", v, text_of(listed));
    if (exactly && listed.size() > promise.kept.size() + promise.loadable.size() - 1)
      return fmt::format("{} are there, promised were {}", text_of(listed), text_of(promise.kept));
    for (const io::ManifestEntry& fact : promise.facts)
      for (const io::ManifestEntry& e : entries)
        if (fact.sha256 == e.sha256 && holds(promise.kept, version_in(file(e.file))) &&
            (e.status < fact.status || e.score != fact.score))
          return fmt::format("what MANIFEST knew about {} is forgotten", e.file);

    const Node& inside = disk.live()[static_cast<std::size_t>(node_at(disk.live(), folder.checkpoints()))];
    std::vector<int> somewhere;
    for (const auto& [name, node] : inside.entries) {
      if (name.starts_with(".")) return name + " is still there";
      somewhere.push_back(version_in(disk.live()[static_cast<std::size_t>(node)].bytes));
    }
    for (const int v : promise.aside)
      if (!holds(somewhere, v)) return fmt::format("version {} was set aside and is gone", v);

    if (goes_on) {
      const std::int64_t step = 1000;
      store.save(request_for(step, 999, {}));
      if (store.load_newest().step != step) return "the run could not go on";
    }
  } catch (const Error& error) {
    return fmt::format("{}{}", error.what(), warnings.empty() ? "" : "; " + warnings.front());
  }
  return "";
}

}  // namespace binade::crash
