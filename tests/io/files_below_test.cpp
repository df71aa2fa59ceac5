#include "binade/io/files/files_below.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "binade/core/error.h"
#include "binade/io/records/json_lines.h"
#include "binade/io/records/tensorboard.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class FilesBelowTest : public ::testing::Test {
 protected:
  mode_t mode_of(const std::string& name) const {
    struct stat status {};
    return ::lstat(scratch_.path(name).c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
  }

  ScratchFolder scratch_;
  std::string secret_ = scratch_.write("outside/secret", "secret"), run_ = scratch_.write("run/file", "text");
};

TEST_F(FilesBelowTest, ReadsListsWritesAndReplaces) {
  const FilesBelow files(scratch_.path("run"));
  EXPECT_EQ(files.read("file", 100), "text");
  EXPECT_EQ(files.read("missing", 100), std::nullopt);
  EXPECT_EQ(files.read("missing/file", 100), std::nullopt);
  EXPECT_EQ(files.read_end("file", 2), "xt");
  files.replace("a/b/c", bytes_of("new"));
  EXPECT_EQ(scratch_.read("run/a/b/c"), "new");
  EXPECT_EQ(files.names_in("a"), std::vector<std::string>{"b"});
  EXPECT_TRUE(files.names_in("missing").empty());
  EXPECT_TRUE(files.holds("a/b"));
  EXPECT_FALSE(files.holds("a/x/y"));
  EXPECT_TRUE(files.create("fresh").has_value());
  EXPECT_FALSE(files.create("fresh").has_value());
  EXPECT_THAT(error_of<StorageError>([&] { files.read("file", 3); }), HasSubstr("at most 3 bytes, got 4"));
  EXPECT_THAT(error_of<StorageError>([&] { files.read("a", 3); }),
              AllOf(HasSubstr("run/a"), HasSubstr("wanted a regular file")));
}

TEST_F(FilesBelowTest, NothingIsReachedThroughALink) {
  fs::create_symlink(secret_, scratch_.path("run/link"));
  fs::create_directory_symlink(scratch_.path("outside"), scratch_.path("run/folder"));
  fs::create_symlink(scratch_.path("outside/made"), scratch_.path("run/dangling"));
  const FilesBelow files(scratch_.path("run"));
  for (const std::string name : {"link", "folder/secret", "dangling"}) {
    const auto refuses = [&](auto&& action) {
      EXPECT_THAT(error_of<StorageError>(action), AllOf(HasSubstr("run/" + name), HasSubstr("symbolic link"))) << name;
    };
    refuses([&] { files.read(name, 100); });
    refuses([&] { files.read_end(name, 100); });
    refuses([&] { files.append_to(name); });
    refuses([&] { JsonLines lines(files, name); });
  }
  EXPECT_THROW(files.names_in("folder"), StorageError);
  EXPECT_THROW(files.create("folder/new"), StorageError);
  EXPECT_THROW(files.replace("folder/secret", bytes_of("x")), StorageError);
  files.replace("link", bytes_of("x"));  // replaces the link, not its target
  EXPECT_EQ(scratch_.read("run/link"), "x");
  EXPECT_EQ(scratch_.read("outside/secret"), "secret");
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch_.path("outside")), {}), 1) << "something was written outside";
}

TEST_F(FilesBelowTest, TheFolderItselfMayBeNamedByALink) {
  fs::create_directory_symlink("run", scratch_.path("latest"));
  EXPECT_EQ(FilesBelow(scratch_.path("latest")).read("file", 100), "text");
  EXPECT_THROW(FilesBelow(scratch_.path("nowhere")), StorageError);
}

TEST_F(FilesBelowTest, FilesAreForTheOwnerOnlyAndFoldersFollowTheUmask) {
  const mode_t before = ::umask(022);
  {
    const FilesBelow files(scratch_.path("run"));
    JsonLines(files, "metrics.jsonl").write(JsonObject().add("step", 1));
    files.replace("samples/1.txt", bytes_of("x"));
    const TensorBoardWriter events(files);
    EXPECT_EQ(mode_of(fs::path(events.path()).lexically_relative(scratch_.path())), 0600u);
  }
  ::umask(before);
  EXPECT_EQ(mode_of("run/metrics.jsonl"), 0600u);
  EXPECT_EQ(mode_of("run/samples/1.txt"), 0600u);
  EXPECT_EQ(mode_of("run/samples"), 0755u);
}

}  // namespace
}  // namespace binade::io
