// A run folder that becomes read-only or unreadable, is moved, or is replaced by something else.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "binade/core/error.h"
#include "binade/io/checkpoint/store.h"
#include "binade/io/files/forwarding_file_ops.h"
#include "binade/io/files/run_folder.h"
#include "binade/io/records/json_lines.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;

/// A disk on which, while read-only, every change fails with the given errno.
class ReadOnlyDisk final : public ForwardingFileOps {
 public:
  explicit ReadOnlyDisk(int error) : ForwardingFileOps(FileOps::real()), error_(error) {}
  void set_read_only(bool read_only) { read_only_ = read_only; }

  int create_folder(const std::string& path) override {
    return refuse([&] { return ForwardingFileOps::create_folder(path); });
  }
  int create_exclusive(int folder, const std::string& name, int& file) override {
    return refuse([&] { return ForwardingFileOps::create_exclusive(folder, name, file); });
  }
  int open_or_create(int folder, const std::string& name, int& file) override {
    return refuse([&] { return ForwardingFileOps::open_or_create(folder, name, file); });
  }
  int rename_no_replace(int folder, const std::string& from, const std::string& to) override {
    return refuse([&] { return ForwardingFileOps::rename_no_replace(folder, from, to); });
  }
  int rename_over(int folder, const std::string& from, const std::string& to) override {
    return refuse([&] { return ForwardingFileOps::rename_over(folder, from, to); });
  }
  int link(int folder, const std::string& from, const std::string& to) override {
    return refuse([&] { return ForwardingFileOps::link(folder, from, to); });
  }
  int unlink(int folder, const std::string& name) override {
    return refuse([&] { return ForwardingFileOps::unlink(folder, name); });
  }

 private:
  template <class Call>
  int refuse(Call call) const {
    return read_only_ ? error_ : call();
  }
  int error_;
  bool read_only_ = true;
};

/// A disk on which opening a folder fails with the given errno.
class ClosedDisk final : public ForwardingFileOps {
 public:
  explicit ClosedDisk(int error) : ForwardingFileOps(FileOps::real()), error_(error) {}
  int open_folder(const std::string&, int&) override { return error_; }

 private:
  int error_;
};

SaveRequest request(std::int64_t step) {
  StateDict state;
  state.put("model/weight", Tensor::full({4}, static_cast<double>(step)));
  return {step, std::move(state), std::string(64, '0'), {}};
}

StoreOptions quiet(FileOps& ops) {
  StoreOptions options;
  options.ops = &ops;
  options.warn = [](const std::string&) {};
  options.pause = std::chrono::milliseconds(0);
  return options;
}

TEST(ReadOnly, ARunNeitherStartsNorResumesAndTheErrorHasTheReason) {
  const ScratchFolder scratch;
  RunFolder::create(scratch.path("run")).write_config("{}");
  for (const int error : {EROFS, EACCES, EPERM}) {
    ReadOnlyDisk disk(error);
    for (const std::string& words : {error_of<StorageError>([&] { RunFolder::create(scratch.path("new"), disk); }),
                                     error_of<StorageError>([&] { RunFolder::resume(scratch.path("run"), disk); })}) {
      EXPECT_NE(words.find(scratch.path()), std::string::npos) << words;
      EXPECT_NE(words.find(error_text(error)), std::string::npos) << words;
    }
    EXPECT_EQ(read_run_config(scratch.path("run"), disk), "{}") << "reading needs no right to write";
    EXPECT_FALSE(fs::exists(scratch.path("new")));
  }
}

TEST(ReadOnly, ADiskThatTurnsReadOnlyKeepsTheLastCommitAndLaterSavesWork) {
  const ScratchFolder scratch;
  for (const int error : {EROFS, EACCES}) {
    ReadOnlyDisk disk(error);
    disk.set_read_only(false);
    CheckpointStore store(scratch.path(), quiet(disk));
    store.save(request(1));
    disk.set_read_only(true);
    const std::string words = error_of<StorageError>([&] { store.save(request(2)); });
    EXPECT_NE(words.find(error_text(error)), std::string::npos) << words;
    EXPECT_EQ(store.load_newest().step, 1);
    EXPECT_EQ(CheckpointStore(scratch.path(), quiet(disk)).load_newest().step, 1)
        << "a store on what cannot be changed";
    disk.set_read_only(false);
    store.save(request(2));
    EXPECT_EQ(store.load_newest().step, 2);
    store.abandon_after(1);
  }
}

TEST(NextFree, AFolderThatCannotBeReadIsAnError) {
  const ScratchFolder scratch;
  for (const int error : {EACCES, EMFILE, EIO}) {
    ClosedDisk disk(error);
    const std::string words = error_of<StorageError>([&] { RunFolder::next_free(scratch.path(), "gpt", disk); });
    EXPECT_NE(words.find(error_text(error)), std::string::npos) << words;
  }
  scratch.write("file", "x");
  EXPECT_THROW(RunFolder::next_free(scratch.path("file"), "gpt"), StorageError);
  EXPECT_EQ(RunFolder::next_free(scratch.path("missing"), "gpt"), scratch.path("missing/gpt-1"));
}

TEST(MovedRun, IsDetectedAndNothingIsWrittenToAFolderOfTheOldName) {
  const ScratchFolder scratch;
  const RunFolder run = RunFolder::create(scratch.path("run"));
  CheckpointStore store(run.checkpoints(), quiet(FileOps::real()));
  store.save(request(1));
  EXPECT_NO_THROW(run.check_not_moved());
  fs::rename(scratch.path("run"), scratch.path("elsewhere"));
  EXPECT_THROW(run.check_not_moved(), StorageError);

  fs::create_directories(scratch.path("run/checkpoints"));
  const std::string words = error_of<StorageError>([&] { run.check_not_moved(); });
  EXPECT_NE(words.find("it was moved, removed or replaced"), std::string::npos) << words;
  store.save(request(2));
  EXPECT_TRUE(fs::is_empty(scratch.path("run/checkpoints")));
  EXPECT_EQ(find_newest_checkpoint(scratch.path("elsewhere/checkpoints")).step, 2);
}

TEST(MovedRun, ARemovedRunIsDetected) {
  const ScratchFolder scratch;
  const RunFolder run = RunFolder::create(scratch.path("run"));
  CheckpointStore store(run.checkpoints(), quiet(FileOps::real()));
  fs::remove_all(scratch.path("run"));
  EXPECT_THROW(run.check_not_moved(), StorageError);
  EXPECT_THROW(store.save(request(1)), StorageError);
  EXPECT_FALSE(fs::exists(scratch.path("run")));
}

TEST(MovedRun, ACheckThatFailsItselfIsIgnored) {
  class OutOfDescriptors final : public ForwardingFileOps {
   public:
    using ForwardingFileOps::ForwardingFileOps;
    int open_folder(const std::string& path, int& folder) override {
      return fails ? EMFILE : ForwardingFileOps::open_folder(path, folder);
    }
    bool fails = false;
  } disk(FileOps::real());
  const ScratchFolder scratch;
  const RunFolder run = RunFolder::create(scratch.path("run"), disk);
  disk.fails = true;
  EXPECT_NO_THROW(run.check_not_moved());
}

/// Replaces the file `path` by something on which open() may block or reading may never end.
void put_in_place(const std::string& what, const std::string& path) {
  fs::remove_all(path);
  if (what == "fifo") {
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  } else if (what == "folder") {
    fs::create_directory(path);
  } else if (what == "device") {
    fs::create_symlink("/dev/zero", path);
  } else {
    fs::create_symlink(path + ".nowhere", path);
  }
}

class ForeignObject : public ::testing::TestWithParam<const char*> {};

TEST_P(ForeignObject, InPlaceOfAFileOfARunIsRefusedOrRepairedWithoutBlocking) {
  const ScratchFolder scratch;
  const std::string run = scratch.path("run");
  {
    RunFolder folder = RunFolder::create(run);
    folder.write_config("{}");
    CheckpointStore store(folder.checkpoints(), quiet(FileOps::real()));
    store.save(request(1));
    store.save(request(2));
  }
  put_in_place(GetParam(), run + "/config.json");
  EXPECT_THROW(read_run_config(run), NoCheckpointError);

  put_in_place(GetParam(), run + "/checkpoints/MANIFEST");
  put_in_place(GetParam(), run + "/checkpoints/" + checkpoint_file_name(2));
  EXPECT_EQ(CheckpointStore(run + "/checkpoints", quiet(FileOps::real())).load_newest().step, 1);

  put_in_place(GetParam(), run + "/metrics.jsonl");
  EXPECT_THROW(JsonLines(FilesBelow(run), "metrics.jsonl"), StorageError);

  put_in_place(GetParam(), run + "/.lock");
  EXPECT_THROW(RunFolder::resume(run), StorageError);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ForeignObject, ::testing::Values("fifo", "folder", "device", "dangling"),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace binade::io
