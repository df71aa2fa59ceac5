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

/// A checkpoint that a story saves. Steps are saved again after a rollback: a version is one state of one step.
struct Version {
  std::int64_t step = 0;
  std::optional<io::Score> score{};
  Bytes image{};  ///< the file that the save must produce
};

/// What the product has promised from some event of the log on. Versions by index; kNone: no checkpoint at all.
struct Promise {
  static constexpr int kNone = -1;

  std::size_t from = 0;
  std::string doing = "begin";
  bool begun = false;                      ///< the run folder is there and holds a run
  bool configured = false;                 ///< with its config.json
  std::vector<int> loadable = {kNone};     ///< load_newest() returns one of these
  std::vector<int> kept{};                 ///< these exist under their own names
  std::vector<int> aside{};                ///< the bytes of these exist under some name
  std::vector<int> foreign{};              ///< these are not listed and not loaded any more
  std::vector<io::ManifestEntry> facts{};  ///< entries that MANIFEST must have at least
  bool rotten = false;                     ///< a file turned bad by itself: a warning about it is right
};

/// A disk whose own allocations do not count.
class UncountedDisk final : public io::ForwardingFileOps {
 public:
  using ForwardingFileOps::ForwardingFileOps;

 private:
  int around(const std::function<int()>& call) override {
    const UncountedMemory laboratory;
    return call();
  }
};

/// The life of one run folder, drawn from a seed: saves, saves on a disk too full for MANIFEST, rollbacks, another
/// state of the same step, kills and reopenings, a file that rots. Beside the log of the disk it keeps what is promised
/// at every instant of it.
class Story {
 public:
  struct Manner {
    std::string forgotten{};  ///< the kind of call that a bug leaves out, see Stage
    bool looks = true;        ///< judge what is there after each action
  };
  Story(std::uint64_t seed, int actions, const Manner& manner);
  /// The first seed from this one on whose story ends with two checkpoints or more.
  static std::uint64_t next_with_two_checkpoints(std::uint64_t seed, int actions);
  ~Story();

  const MemoryDisk& disk() const { return disk_; }
  const Promise& promise_at(std::size_t instant) const;
  const std::set<std::string>& kinds() const { return stage_.kinds(); }
  /// What went wrong while it was told, without any power cut; empty when nothing did.
  const std::string& trouble() const { return trouble_; }

  /// Opens what a power cut left as a program that resumes would. Says what breaks the promise; empty when nothing
  /// does. With `exactly` nothing but the promised checkpoints may be there. With `goes_on` another save must follow.
  std::string judge(const DiskImage& left, const Promise& promise, bool exactly = false, bool goes_on = false) const;

  /// What a program asks of a run folder.
  enum class Action { kOpen, kSave, kReplace, kRollBack, kLoad, kResume, kSaveBehind };
  struct Attempt {
    bool reached = false;  ///< there were as many calls or allocations as that
    bool struck = false;   ///< and one of them failed
    std::string wrong{};   ///< with how it ended, or with what is left, now and after a power cut
  };
  /// Does one thing while calls fail. It must have two checkpoints.
  Attempt attempt(Action action, const Fault& fault);
  /// The same while allocations fail.
  Attempt attempt(Action action, const Shortage& shortage);

  /// Resumes as a program does, on a disk that a power cut left, and stops there.
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
  /// A call of the product, whose allocations may fail.
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
  bool behind_ = false;      // the store's own thread does the saves
  bool supersedes_ = false;  // another state of a step replaces the existing one, as after a last evaluation
  std::vector<Version> versions_;
  std::vector<Promise> promises_;
  std::vector<std::string> warnings_;
  std::string trouble_;
  std::optional<io::RunFolder> folder_;
  std::unique_ptr<io::CheckpointStore> store_;
  std::int64_t clean_ = 0;  // the last step that was reported clean
};

const char* name_of(Story::Action action);

}  // namespace binade::crash
