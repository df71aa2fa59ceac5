#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <thread>

#include "binade/core/error.h"
#include "binade/core/state_copy.h"
#include "binade/io/checkpoint/store.h"
#include "tests/core/no_threads.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;

class CheckpointStoreTest : public ::testing::Test {
 protected:
  /// Every value depends on the step, so that a loaded state can be checked.
  static StateDict state_at(std::int64_t step, std::int64_t size = 1000) {
    StateDict state;
    state.put("model/weight", Tensor::full({size}, static_cast<double>(step)));
    state.put("progress/step", step);
    return state;
  }
  static SaveRequest request(std::int64_t step, std::optional<Score> score = {}) {
    return {step, state_at(step), std::string(64, '0'), score};
  }
  StoreOptions options(int keep = 3) {
    StoreOptions o;
    o.keep = keep;
    o.warn = [this](const std::string& line) { warnings_.push_back(line); };
    return o;
  }
  std::vector<std::int64_t> steps_on_disk() const {
    std::vector<std::int64_t> steps;
    for (const auto& entry : fs::directory_iterator(folder_))
      if (const auto step = step_of_file_name(entry.path().filename().string())) steps.push_back(*step);
    std::sort(steps.begin(), steps.end());
    return steps;
  }
  std::vector<std::string> names_on_disk() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string path_of(std::int64_t step) const { return folder_ + "/" + checkpoint_file_name(step); }
  void damage(std::int64_t step) const {
    std::fstream file(path_of(step), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(2000);
    file.put('!');
  }
  static void expect_state(const LoadedCheckpoint& loaded, std::int64_t step) {
    EXPECT_EQ(loaded.step, step);
    EXPECT_EQ(loaded.state.integer("progress/step"), step);
    EXPECT_EQ(loaded.state.tensor("model/weight").at(7), static_cast<double>(step));
  }

  ScratchFolder scratch_;
  std::string folder_ = scratch_.path();
  std::vector<std::string> warnings_;
};

using Steps = std::vector<std::int64_t>;

TEST_F(CheckpointStoreTest, FindsTheBestTheNewestOrTheOneOfAStep) {
  using enum CheckpointChoice::Rule;
  CheckpointStore store(folder_, options());
  const auto warn = [this](const std::string& line) { warnings_.push_back(line); };
  const auto found = [&](CheckpointChoice choice) { return find_checkpoint(folder_, choice, warn); };
  store.save(request(10));
  expect_state(found({}), 10);
  EXPECT_THROW(found({.rule = kBest}), NoCheckpointError) << "there is no score yet";

  store.save(request(20, Score{0.2}));
  store.save(request(30, Score{0.5}));
  store.save(request(40, Score{0.9}));
  store.save(request(50));
  EXPECT_EQ(steps_on_disk(), (Steps{10, 20, 30, 40, 50}));
  expect_state(found({}), 20);
  expect_state(found({.rule = kBest}), 20);
  EXPECT_EQ(found({.rule = kBest}).why, "the best of 3 with a score");
  expect_state(found({.rule = kNewest}), 50);
  expect_state(found({.rule = kStep, .step = 40}), 40);
  EXPECT_EQ(warnings_.size(), 0u);
  try {
    found({.rule = kStep, .step = 7});
    FAIL() << "there is none of step 7";
  } catch (const NoCheckpointError& e) {
    EXPECT_NE(std::string(e.what()).find("10, 20, 30, 40, 50"), std::string::npos) << e.what();
  }

  damage(20);
  expect_state(found({}), 30);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("ckpt-000000000020.h5"), std::string::npos);
  EXPECT_THROW(found({.rule = kStep, .step = 20}), NoCheckpointError);
  damage(30);
  damage(40);
  expect_state(found({}), 50);
  EXPECT_THROW(found({.rule = kBest}), NoCheckpointError);
  EXPECT_EQ(steps_on_disk(), (Steps{10, 20, 30, 40, 50})) << "it only reads";
}

TEST_F(CheckpointStoreTest, AChoiceIsAWordOrAStepAndOtherTextIsAFileName) {
  using enum CheckpointChoice::Rule;
  EXPECT_EQ(checkpoint_choice("best").value().rule, kBest);
  EXPECT_EQ(checkpoint_choice("newest").value().rule, kNewest);
  EXPECT_EQ(checkpoint_choice("500").value().step, 500);
  for (const char* file : {"", "ckpt.h5", "./best", "./500", "-5", "5x", "99999999999999999999"})
    EXPECT_FALSE(checkpoint_choice(file).has_value()) << file;
}

TEST_F(CheckpointStoreTest, LoadsTheNewest) {
  CheckpointStore store(folder_, options());
  for (const std::int64_t step : {10, 20, 30}) store.save(request(step));
  expect_state(store.load_newest(), 30);
  expect_state(find_newest_checkpoint(folder_), 30);
  EXPECT_TRUE(warnings_.empty());
  struct stat s {};
  ASSERT_EQ(::stat(path_of(30).c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
}

TEST_F(CheckpointStoreTest, AnEmptyFolderHasNoCheckpoint) {
  CheckpointStore store(folder_, options());
  EXPECT_THROW(store.load_newest(), NoCheckpointError);
  EXPECT_THROW(find_newest_checkpoint(folder_), NoCheckpointError);
  EXPECT_THROW(find_newest_checkpoint(folder_ + "/missing"), NoCheckpointError);
  EXPECT_THROW(CheckpointStore(folder_ + "/missing"), StorageError);
}

TEST_F(CheckpointStoreTest, WithoutAWriterThreadItIsNotOpened) {
  const test::NoThreads none;
  EXPECT_THROW(CheckpointStore(folder_, options()), OutOfMemoryError);
}

TEST_F(CheckpointStoreTest, SavingTheSameStateAgainChangesNothing) {
  CheckpointStore store(folder_, options());
  store.save(request(10));
  const auto before = fs::last_write_time(path_of(10));
  store.save(request(10));
  EXPECT_EQ(fs::last_write_time(path_of(10)), before);
  EXPECT_EQ(names_on_disk(), (std::vector<std::string>{"MANIFEST", checkpoint_file_name(10)}));
}

TEST_F(CheckpointStoreTest, AnotherStateOfTheSameStepRenamesTheOldFile) {
  CheckpointStore store(folder_, options());
  store.save(request(10));
  SaveRequest other = request(10);
  other.state.put("progress/version", std::int64_t{2});
  store.save(std::move(other));
  EXPECT_TRUE(fs::exists(path_of(10) + ".abandoned-1"));
  EXPECT_EQ(store.load_newest().state.integer("progress/version"), 2);
}

TEST_F(CheckpointStoreTest, AFileNamedWithAnotherStepIsNotUsed) {
  {
    CheckpointStore store(folder_, options());
    for (const std::int64_t step : {10, 20}) store.save(request(step));
  }
  for (const std::int64_t step : {15LL, 100LL, 999'999'999'999LL}) fs::copy_file(path_of(20), path_of(step));
  std::vector<std::string> messages;
  expect_state(find_newest_checkpoint(folder_, [&](const std::string& line) { messages.push_back(line); }), 20);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_NE(messages[1].find("its name says step 100, it holds step 20"), std::string::npos) << messages[1];
  EXPECT_EQ(steps_on_disk(), (Steps{10, 15, 20, 100, 999'999'999'999})) << "a reader changes nothing";

  CheckpointStore store(folder_, options());
  EXPECT_EQ(warnings_.size(), 3u);
  EXPECT_EQ(steps_on_disk(), (Steps{10, 20}));
  EXPECT_TRUE(fs::exists(path_of(100) + ".misnamed-1"));
  expect_state(store.load_newest(), 20);
  store.save(request(30));
  expect_state(store.load_newest(), 30);

  fs::copy_file(path_of(10), path_of(30),
                fs::copy_options::overwrite_existing);  // now a file whose name is in MANIFEST has another step
  expect_state(store.load_newest(), 20);
  EXPECT_FALSE(fs::exists(path_of(30)));
}

TEST_F(CheckpointStoreTest, TheNewestEightDamagedFilesAreKept) {
  {
    CheckpointStore store(folder_, options());
    store.save(request(10));
  }
  for (int round = 0; round < 3; ++round) {
    for (std::int64_t step = 1; step <= 4; ++step) std::ofstream(path_of(step)) << "damaged " << round << step;
    CheckpointStore(folder_, options());
  }
  std::vector<std::string> aside;
  for (const std::string& name : names_on_disk())
    if (name.find(".corrupt-") != std::string::npos) aside.push_back(name);
  const auto name = [](int step, int n) { return fmt::format("{}.corrupt-{}", checkpoint_file_name(step), n); };
  EXPECT_EQ(aside, (std::vector<std::string>{name(2, 2), name(2, 3), name(3, 1), name(3, 2), name(3, 3), name(4, 1),
                                             name(4, 2), name(4, 3)}));
  std::ofstream(path_of(2)) << "damaged again";
  CheckpointStore(folder_, options());
  EXPECT_TRUE(fs::exists(folder_ + "/" + name(2, 4))) << "the newest of a name has the highest number";
  EXPECT_FALSE(fs::exists(folder_ + "/" + name(2, 2)));
}

TEST_F(CheckpointStoreTest, DamagedFilesAreReportedAndRenamed) {
  CheckpointStore store(folder_, options());
  for (const std::int64_t step : {10, 20, 30}) store.save(request(step));
  damage(30);
  fs::resize_file(path_of(20), 700);
  expect_state(find_newest_checkpoint(folder_, [](const std::string&) {}), 10);
  EXPECT_EQ(steps_on_disk(), (Steps{10, 20, 30}));  // a reader changes nothing
  expect_state(store.load_newest(), 10);
  EXPECT_EQ(steps_on_disk(), (Steps{10}));
  EXPECT_TRUE(fs::exists(path_of(30) + ".corrupt-1"));
  EXPECT_TRUE(fs::exists(path_of(20) + ".corrupt-1"));
  ASSERT_EQ(warnings_.size(), 2u);
  EXPECT_NE(warnings_[0].find(checkpoint_file_name(30)), std::string::npos);
  EXPECT_NE(warnings_[1].find("cut short"), std::string::npos);
  damage(10);
  EXPECT_THROW(store.load_newest(), NoCheckpointError);
  store.save(request(40));
  expect_state(store.load_newest(), 40);
}

TEST_F(CheckpointStoreTest, LinksFoldersAndPipesInPlaceOfACheckpointAreRefused) {
  CheckpointStore store(folder_, options());
  store.save(request(10));
  fs::create_symlink(path_of(10), path_of(40));
  fs::create_directory(path_of(30));
  ASSERT_EQ(::mkfifo(path_of(20).c_str(), 0600), 0);
  expect_state(store.load_newest(), 10);
  EXPECT_EQ(warnings_.size(), 3u);
}

TEST_F(CheckpointStoreTest, ManifestIsRebuiltIfMissingOrDamaged) {
  {
    CheckpointStore store(folder_, options());
    for (const std::int64_t step : {10, 20, 30}) store.save(request(step));
  }
  const std::string path = folder_ + "/MANIFEST";
  std::string text;
  {
    std::ifstream file(path);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  const std::vector<ManifestEntry> wanted = CheckpointStore(folder_, options()).entries();
  ASSERT_EQ(wanted.size(), 3u);
  for (int kind = 0; kind < 4; ++kind) {
    SCOPED_TRACE(kind);
    if (kind == 0) fs::remove(path);
    if (kind == 1) std::ofstream(path) << text.substr(0, text.size() / 2);
    if (kind == 2) std::ofstream(path) << std::string(5000, '\0');
    if (kind == 3) std::ofstream(path) << text << "999 ckpt-000000000999.h5 1 x verified finite - 00000000\n";
    CheckpointStore store(folder_, options());
    const std::vector<ManifestEntry> got = store.entries();
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].step, wanted[i].step);
      EXPECT_EQ(got[i].sha256, wanted[i].sha256);
      EXPECT_EQ(got[i].bytes, wanted[i].bytes);
    }
    expect_state(store.load_newest(), 30);
    std::ifstream file(path);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
  }
}

TEST_F(CheckpointStoreTest, EveryChangedByteOfManifestIsDetected) {
  Manifest manifest;
  manifest.entries = {
      {10, checkpoint_file_name(10), 5, std::string(64, 'a'), CheckpointStatus::kGood, true, Score{0.25}},
      {20, checkpoint_file_name(20), 6, std::string(64, 'b'), CheckpointStatus::kVerified, true, {}},
      {30, checkpoint_file_name(30), 6, std::string(64, 'c'), CheckpointStatus::kGood, true, Score{0.5, true}}};
  manifest.last_trouble = 15;
  const std::string text = to_text(manifest);
  const ManifestReading whole = manifest_from(text);
  EXPECT_TRUE(whole.whole);
  EXPECT_EQ(to_text(whole.manifest), text);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(whole.manifest.entries[i].score, manifest.entries[i].score);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(manifest_from(changed).whole) << i;
    EXPECT_FALSE(manifest_from(text.substr(0, i)).whole) << i;
  }
}

TEST_F(CheckpointStoreTest, TemporaryFilesOfADeadWriterAreDeletedAndForeignFilesKept) {
  std::ofstream(folder_ + "/.ckpt-000000000020.h5.saving") << "half";
  std::ofstream(folder_ + "/.MANIFEST.tmp") << "half";
  std::ofstream(folder_ + "/notes.txt") << "mine";
  std::ofstream(folder_ + "/ckpt-20.h5") << "not our pattern";
  CheckpointStore store(folder_, options());
  EXPECT_EQ(names_on_disk(), (std::vector<std::string>{"ckpt-20.h5", "notes.txt"}));
}

TEST_F(CheckpointStoreTest, WhetherTheBestIsHighestOrLowestFollowsTheNewestScore) {
  const auto entries = [](std::vector<std::optional<Score>> scores) {
    std::vector<ManifestEntry> list(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) list[i].score = scores[i];
    return list;
  };
  using Order = std::vector<std::size_t>;
  const auto low = [](double value) { return Score{value, false}; };
  const auto high = [](double value) { return Score{value, true}; };
  EXPECT_EQ(best_first(entries({low(0.5), low(0.2), low(0.2), std::nullopt})), (Order{1, 2, 0}));
  EXPECT_EQ(best_first(entries({high(0.5), high(0.7), high(0.6)})), (Order{1, 2, 0}));
  // Old versions of Binade stored a Dice score negated.
  EXPECT_EQ(best_first(entries({low(-0.9), high(0.7), high(0.6)})), (Order{1, 2}));
  EXPECT_EQ(best_first(entries({std::nullopt})), Order{});
  EXPECT_EQ(kept_by_ring(entries({high(0.5), high(0.7), high(0.6), high(0.1)}), 1),
            (std::vector<bool>{false, true, false, true}));
}

TEST_F(CheckpointStoreTest, KeepsTheNewestTheBestTheGoodAndTheNextToBecomeGood) {
  CheckpointStore store(folder_, options(2));
  auto clean_to = [&, step = std::int64_t{0}](std::int64_t end) mutable {
    while (step < end) store.step_was_clean(++step);
  };
  store.save(request(1, Score{0.9}));
  for (std::int64_t step = 10; step <= 40; step += 10) {
    clean_to(step);
    store.save(request(step, Score{step == 20 ? 0.1 : 0.5}));
  }
  EXPECT_EQ(steps_on_disk(), (Steps{1, 20, 30, 40}));  // 1 becomes good next, 20 is the best
  clean_to(60);
  store.save(request(60));
  EXPECT_EQ(steps_on_disk(), (Steps{1, 20, 40, 60}));  // 1 became good; 20 is the best, and becomes good next
  EXPECT_EQ(store.entries()[0].status, CheckpointStatus::kGood);
  EXPECT_EQ(store.entries()[1].status, CheckpointStatus::kVerified);
  clean_to(70);
  store.save(request(70));
  EXPECT_EQ(steps_on_disk(), (Steps{20, 40, 60, 70}));  // 20 became good, so 1 is deleted; 40 becomes good next
}

TEST_F(CheckpointStoreTest, KeepOneAlsoKeepsWhatARollbackNeeds) {
  std::vector<ManifestEntry> entries;
  for (const std::int64_t step : {10, 20, 30}) entries.push_back({.step = step, .status = CheckpointStatus::kVerified});
  EXPECT_EQ(kept_by_ring(entries, 1), (std::vector<bool>{true, false, true}))
      << "the newest, and the next to become good";
  entries[0].status = CheckpointStatus::kGood;
  EXPECT_EQ(kept_by_ring(entries, 1), (std::vector<bool>{true, true, true}));
  entries[1].status = CheckpointStatus::kGood;
  EXPECT_EQ(kept_by_ring(entries, 1), (std::vector<bool>{false, true, true})) << "the newest, and the last good one";
}

TEST_F(CheckpointStoreTest, AnIncidentDelaysTheStatusGood) {
  CheckpointStore store(folder_, options());
  store.save(request(10));
  for (std::int64_t step = 11; step <= 40; ++step) store.step_was_clean(step);
  store.step_had_trouble(40);
  for (std::int64_t step = 41; step < 90; ++step) store.step_was_clean(step);
  EXPECT_EQ(store.entries()[0].status, CheckpointStatus::kVerified);
  store.step_was_clean(90);
  EXPECT_EQ(store.entries()[0].status, CheckpointStatus::kGood);
}

TEST_F(CheckpointStoreTest, AStateWithNonFiniteValuesIsNotWritten) {
  CheckpointStore store(folder_, options());
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, inf, -inf})
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
      std::vector<float> values(5000, 1.0f);
      values[4999] = bad;
      SaveRequest sick = request(10);
      sick.state.put("optim/v", Tensor::from<float>(values, {5000}).to(dtype));
      try {
        store.save(std::move(sick));
        ADD_FAILURE() << "saved";
      } catch (const NumericError& e) {
        EXPECT_NE(std::string(e.what()).find("optim/v holds"), std::string::npos) << e.what();
        EXPECT_NE(std::string(e.what()).find("4999"), std::string::npos) << e.what();
      }
    }
  SaveRequest sick = request(10);
  sick.state.put("guard/window", StateDict::Numbers{1, inf});
  EXPECT_THROW(store.save(std::move(sick)), NumericError);
  EXPECT_TRUE(steps_on_disk().empty());
}

TEST_F(CheckpointStoreTest, TheBeforeCallbackRunsFirstAndOnTheWriterThread) {
  CheckpointStore store(folder_, options());
  std::thread::id where;
  bool file_was_there = true;
  SaveRequest first = request(10);
  first.before = [&] {
    where = std::this_thread::get_id();
    file_was_there = std::filesystem::exists(path_of(10));
  };
  ASSERT_TRUE(store.start_save(std::move(first)));
  store.wait();
  EXPECT_NE(where, std::this_thread::get_id());
  EXPECT_FALSE(file_was_there);
  EXPECT_EQ(steps_on_disk(), Steps{10});

  SaveRequest second = request(20);
  second.before = [] { throw StorageError("metrics.jsonl: no room"); };
  EXPECT_THROW(store.save(std::move(second)), StorageError);
  EXPECT_EQ(steps_on_disk(), Steps{10}) << "a checkpoint whose log is not on the disk does not exist";
}

TEST_F(CheckpointStoreTest, TheWriterComputesTheStateHashAndReportsTheOutcome) {
  CheckpointStore store(folder_, options());
  std::thread::id where;
  SaveRequest request{.step = 10, .state = state_at(10)};
  request.hash = [&](const StateDict& state) {
    where = std::this_thread::get_id();
    return fmt::format("{:064}", state.integer("progress/step"));
  };
  ASSERT_TRUE(store.start_save(std::move(request)));
  store.wait();
  const std::vector<SaveOutcome> outcomes = store.finished();
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_NE(where, std::this_thread::get_id());
  EXPECT_EQ(load_checkpoint(path_of(10)).info.state_hash, fmt::format("{:064}", 10));
  EXPECT_EQ(outcomes[0].bytes, std::filesystem::file_size(path_of(10)));
  EXPECT_GT(outcomes[0].seconds, 0);
}

TEST_F(CheckpointStoreTest, OnlyOneSaveRunsAndTheStateMayChangeDuringIt) {
  CheckpointStore store(folder_, options());
  StateDict live = state_at(10, 3'000'000);
  ASSERT_TRUE(store.start_save({.step = 10, .state = cloned(live)}));
  Tensor weight = live.tensor("model/weight");
  weight.fill(-1);
  int refused = 0;
  while (store.saving()) refused += store.start_save(request(11)) ? 0 : 1;
  store.wait();
  const std::vector<SaveOutcome> outcomes = store.finished();
  ASSERT_GE(outcomes.size(), 1u);
  EXPECT_TRUE(outcomes[0].committed) << outcomes[0].problem;
  EXPECT_TRUE(store.finished().empty());
  std::ifstream probe(path_of(10));
  EXPECT_EQ(load_checkpoint(path_of(10)).state.tensor("model/weight").at(2'999'999), 10.0);
}

TEST_F(CheckpointStoreTest, AFullDiskKeepsTheLastCommit) {
  CheckpointStore store(folder_, options());
  store.save(request(10));
  ::signal(SIGXFSZ, SIG_IGN);  // as programs do (io/terminal/signals.h), so that the write fails with EFBIG
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  for (const rlim_t limit : {rlim_t{0}, rlim_t{100}, rlim_t{4096}, rlim_t{100'000}}) {
    rlimit small = before;
    small.rlim_cur = limit;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const bool started = store.start_save({.step = 20, .state = state_at(20, 100'000)});
    store.wait();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_TRUE(started);
    const std::vector<SaveOutcome> outcomes = store.finished();
    ASSERT_EQ(outcomes.size(), 1u);
    EXPECT_FALSE(outcomes[0].committed);
    EXPECT_THROW(std::rethrow_exception(outcomes[0].error), StorageError);
    EXPECT_EQ(names_on_disk(), (std::vector<std::string>{"MANIFEST", checkpoint_file_name(10)})) << limit;
  }
  expect_state(store.load_newest(), 10);
  store.save(request(20));
  expect_state(store.load_newest(), 20);
}

TEST_F(CheckpointStoreTest, AFolderDeletedDuringARunIsAStorageError) {
  CheckpointStore store(folder_, options());
  store.save(request(10));
  fs::remove_all(folder_);
  EXPECT_THROW(store.save(request(20)), StorageError);
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(CheckpointStoreTest, AfterAKillAtAnyInstantTheNewestAcknowledgedCommitLoads) {
  std::mt19937 random(11);
  std::int64_t acknowledged = 0;
  int landed_inside = 0;
  for (int round = 0; round < 40; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        StoreOptions quiet;
        quiet.keep = 2;
        quiet.warn = [](const std::string&) {};
        CheckpointStore store(folder_, quiet);
        for (std::int64_t step = acknowledged + 1;; ++step) {
          store.save({step, state_at(step, 20'000), std::string(64, '0'), {}});
          if (::write(pipe_ends[1], &step, sizeof(step)) != sizeof(step)) ::_exit(3);
        }
      } catch (...) {
        ::_exit(4);
      }
    }
    ::close(pipe_ends[1]);
    std::int64_t step = 0;  // wait for one commit, then kill during the next ones
    if (::read(pipe_ends[0], &step, sizeof(step)) == sizeof(step)) acknowledged = step;
    ::usleep(static_cast<useconds_t>(random() % 60'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child failed by itself";
    while (::read(pipe_ends[0], &step, sizeof(step)) == sizeof(step)) acknowledged = step;
    ::close(pipe_ends[0]);
    CheckpointStore store(folder_, options());
    const LoadedCheckpoint loaded = store.load_newest();
    ASSERT_GE(loaded.step, acknowledged);
    ASSERT_LE(loaded.step, acknowledged + 1);
    landed_inside += loaded.step != acknowledged ? 1 : 0;
    acknowledged = loaded.step;
    expect_state(loaded, loaded.step);
    ASSERT_TRUE(warnings_.empty()) << warnings_[0];
  }
  EXPECT_GT(acknowledged, 0);
  std::printf("last step %lld, kills between rename and acknowledgement %d\n", static_cast<long long>(acknowledged),
              landed_inside);
}

}  // namespace
}  // namespace binade::io
