#pragma once

#include <memory>
#include <optional>

#include "binade/io/checkpoint/store.h"
#include "binade/io/files/run_folder.h"
#include "tests/crash/experiments.h"
#include "tests/crash/faulty_disk.h"
#include "tests/crash/memory_disk.h"
#include "tests/crash/scarce_memory.h"
#include "tests/crash/stage.h"

namespace binade::crash {

/// A checkpoint that a story saves: one state of one step. A step has several versions if it is saved again after a
/// rollback.
struct Version {
  std::int64_t step = 0;
  std::optional<io::Score> score{};
  Bytes image{};  ///< the file that the save must produce
};

/// The state that Binade promises from event `from` of the disk's log on. Lists contain indices of versions; kNone
/// stands for no checkpoint.
struct Promise {
  static constexpr int kNone = -1;

  std::size_t from = 0;
  std::string doing = "begin";
  bool begun = false;                      ///< the run folder exists and holds a run
  bool configured = false;                 ///< config.json exists
  std::vector<int> loadable = {kNone};     ///< load_newest() returns one of these
  std::vector<int> kept{};                 ///< these checkpoints exist under their own names
  std::vector<int> aside{};                ///< these files exist, possibly renamed
  std::vector<int> foreign{};              ///< these checkpoints must be neither listed nor loaded
  std::vector<io::ManifestEntry> facts{};  ///< entries that MANIFEST must contain
  bool rotten = false;                     ///< a file was corrupted, so that a warning about it is correct
};

/// A disk whose own allocations are not counted (ScarceMemory).
class UncountedDisk final : public io::ForwardingFileOps {
 public:
  using ForwardingFileOps::ForwardingFileOps;

 private:
  int around(const std::function<int()>& call) override {
    const UncountedMemory laboratory;
    return call();
  }
};

/// A story is a simulated run. Its actions are drawn from a seed: saves (in some of them the disk is too full for
/// MANIFEST), second saves of a step, rollbacks, kills and resumes, the corruption of a file. It records the log of the
/// disk, and the promise that holds at each instant of the log.
class Story {
 public:
  struct Manner {
    std::string forgotten{};  ///< the kind of call that a seeded bug leaves out, see Stage
    bool looks = true;        ///< true: checks the disk after each action
  };
  Story(std::uint64_t seed, int actions, const Manner& manner);
  /// Returns the first seed, starting at `seed`, whose story ends with at least two checkpoints.
  static std::uint64_t next_with_two_checkpoints(std::uint64_t seed, int actions);
  ~Story();

  const MemoryDisk& disk() const { return disk_; }
  const Promise& promise_at(std::size_t instant) const;
  const std::set<std::string>& kinds() const { return stage_.kinds(); }
  /// Returns the violation that occurred without a power cut; "" if there was none.
  const std::string& trouble() const { return trouble_; }

  /// Opens the disk `left` by a power cut, as a resumed program does. Returns how it violates the promise, or "". With
  /// `exactly`, checkpoints that are not promised are a violation. With `goes_on`, another save must succeed.
  std::string judge(const DiskImage& left, const Promise& promise, bool exactly = false, bool goes_on = false) const;

  /// Actions of a program on a run folder.
  enum class Action { kOpen, kSave, kReplace, kRollBack, kLoad, kResume, kSaveBehind };
  struct Attempt {
    bool reached = false;  ///< the planned call or allocation was reached
    bool struck = false;   ///< a call or allocation failed
    std::string wrong{};  ///< the violation: a wrong exception, or a wrong state of the disk, now or after a power cut;
                          ///< empty: none
  };
  /// Performs an action while calls fail. The story must have at least two checkpoints.
  Attempt attempt(Action action, const Fault& fault);
  /// Performs an action while allocations fail.
  Attempt attempt(Action action, const Shortage& shortage);

  /// Opens the run on a disk that a power cut left, as a resumed program does, and does nothing else.
  void recover(MemoryDisk& disk) const;

 private:
  void begin();
  void prepare(Action action);
  void carry_out(Action action);
  std::string judge_ending(Action action, const Fault& fault);
  std::string judge_memory_ending(Action action);
  std::string judge_what_is_left(Action action);
  std::string judge_the_disk(Action action);
  void act();
  void open();
  void save();
  void save_another_of_the_same_step();
  void roll_back();
  void kill(bool rolling_back);
  void rot();

  void save_version(int version);
  void save_behind(io::SaveRequest request);
  /// Calls code of Binade, whose allocations may fail.
  template <class Call>
  auto ask(Call&& call) {
    std::optional<ScarceMemory> scarce;
    if (shortage_) scarce.emplace(*shortage_);
    return call();
  }
  int make_version(std::int64_t step);
  int version_in(const Bytes& file) const;
  std::vector<int> versions_of(const std::vector<io::ManifestEntry>& entries) const;
  void promise(Promise next);
  void promise_save(int version);
  void promise_rollback(std::int64_t step);
  void promise_what_is_there();
  void look(const char* after, bool exactly);
  io::StoreOptions options(io::FileOps& ops, std::vector<std::string>& warnings) const;

  Draws draws_;
  bool looks_;
  int keep_;
  MemoryDisk disk_;
  FaultyDisk faulty_;
  Stage stage_;
  UncountedDisk outside_;
  std::optional<Shortage> shortage_;
  bool behind_ = false;      // true: saves run in the store's writer thread
  bool supersedes_ = false;  // true: a second save of a step replaces the first one, as after the last evaluation
  std::vector<Version> versions_;
  std::vector<Promise> promises_;
  std::vector<std::string> warnings_;
  std::string trouble_;
  std::optional<io::RunFolder> folder_;
  std::unique_ptr<io::CheckpointStore> store_;
  std::int64_t clean_ = 0;  // the last step that was reported as free of incidents
};

const char* name_of(Story::Action action);

}  // namespace binade::crash
