#include "binade/io/files/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "binade/core/error.h"
#include "binade/io/data/png.h"
#include "binade/io/exchange/safetensors.h"
#include "binade/io/files/file_ops.h"
#include "tests/io/scratch_folder.h"

namespace binade::io {
namespace {

using ::testing::HasSubstr;

mode_t mode_of(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode : 0;
}

/// Returns the bytes that `write` writes to a FIFO at `path`; it must still be a FIFO afterwards.
std::string through_a_fifo(const std::string& path, const std::function<void()>& write) {
  EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int end = ::open(path.c_str(), O_RDWR | O_CLOEXEC);  // opens both ends, so that neither open() blocks
  write();
  std::string got(4096, '\0');
  if (S_ISFIFO(mode_of(path)))
    got.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(end, got.data(), got.size()))));
  else
    got = "it was replaced by a regular file";
  ::close(end);
  ::unlink(path.c_str());
  return got;
}

TEST(OutputFile, AFifoIsWrittenToAndNotReplaced) {
  const ScratchFolder folder;
  const std::string fifo = folder.path("fifo");
  const Safetensors content{.tensors = {{"weight", Tensor::full({2}, 1.5)}}};
  const std::vector<std::byte> bytes = encode_safetensors(content);
  EXPECT_EQ(through_a_fifo(fifo, [&] { write_safetensors(fifo, content); }),
            std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const Image image{1, 1, 1, 8, {7}};
  EXPECT_EQ(through_a_fifo(fifo, [&] { write_png(fifo, image); }), encode_png(image));
}

TEST(OutputFile, AFifoWithoutAReaderAndAFolderAreRefused) {
  const ScratchFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(error_of<StorageError>([&] { write_output_file(folder.path("fifo"), bytes_of("x")); }),
              HasSubstr("start the reader first"));
  EXPECT_THAT(error_of<StorageError>([&] { write_output_file(folder.path(), bytes_of("x")); }),
              HasSubstr("it is a folder"));
  EXPECT_THAT(error_of<StorageError>([&] { write_output_file(folder.path("no/x"), bytes_of("x")); }),
              HasSubstr("No such file"));
}

TEST(OutputFile, AFileIsReplacedAtomicallyAndKeepsItsModeAndLinks) {
  const ScratchFolder folder;
  const std::string path = folder.write("a", "old and longer");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  std::filesystem::create_symlink("a", folder.path("link"));
  write_output_file(folder.path("link"), bytes_of("new"));
  EXPECT_EQ(folder.read("a"), "new");
  EXPECT_EQ(mode_of(path) & 07777, 0640u);
  EXPECT_TRUE(S_ISLNK(mode_of(folder.path("link"))));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2) << "nothing stays beside it";
}

TEST(OutputFile, ANewlyMadeFileHasTheModeOfTheUmask) {
  const ScratchFolder folder;
  const mode_t before = ::umask(027);
  write_output_file(folder.path("a"), bytes_of("x"));
  ::umask(before);
  EXPECT_EQ(mode_of(folder.path("a")) & 07777, 0640u);
}

}  // namespace
}  // namespace binade::io
