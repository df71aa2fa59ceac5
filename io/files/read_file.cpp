#include "binade/io/files/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>

#include "binade/core/error.h"

namespace binade::io {

RegularFile::RegularFile(const std::string& path) {
  // O_NONBLOCK, so that a FIFO of that name is refused below without waiting for a writer.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  check<DataError>(descriptor_ >= 0, "{}: cannot be opened: {}", path, std::strerror(errno));
  struct stat status {};
  const int error = ::fstat(descriptor_, &status) == 0 ? 0 : errno;
  bytes_ = static_cast<std::uint64_t>(status.st_size);
  if (error == 0 && S_ISREG(status.st_mode)) return;
  ::close(descriptor_);
  check<DataError>(error == 0, "{}: cannot be examined: {}", path, std::strerror(error));
  throw DataError(
      fmt::format("{}: wanted a regular file, got {}", path, S_ISDIR(status.st_mode) ? "a folder" : "something else"));
}

RegularFile::~RegularFile() { ::close(descriptor_); }

namespace {

/// Reads until `bytes` has `size` bytes, or to the end of the file.
void read_up_to(const RegularFile& file, const std::string& path, std::size_t size, std::string& bytes) {
  std::size_t done = bytes.size();
  bytes.resize(size);
  while (done < size) {
    const ssize_t count = ::read(file.descriptor(), bytes.data() + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    check<DataError>(count >= 0, "{}: cannot be read at byte {}: {}", path, done, std::strerror(errno));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  bytes.resize(done);
}

}  // namespace

std::string read_file(const std::string& path, std::uint64_t max_bytes, std::string_view magic) {
  const RegularFile file(path);
  const std::uint64_t size = file.bytes();
  check<DataError>(size <= max_bytes, "{}: wanted at most {} bytes, got {}", path, max_bytes, size);

  std::string bytes;
  for (const std::size_t part : {std::min<std::size_t>(size, magic.size()), static_cast<std::size_t>(size)}) {
    read_up_to(file, path, part, bytes);
    check<DataError>(bytes.size() == part, "{}: became shorter while it was read: {} of {} bytes", path, bytes.size(),
                     size);
    if (!bytes.starts_with(magic)) return bytes;
  }
  return bytes;
}

std::string read_begin(const std::string& path, std::size_t count) {
  std::string bytes;
  read_up_to(RegularFile(path), path, count, bytes);
  return bytes;
}

std::vector<std::string> list_files(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::pair<bool, std::string>> found;  // (is a link, name), so that real names sort first
  fs::directory_iterator entries(folder, error);
  check<DataError>(!error, "{}: the folder cannot be read: {}", folder, error.message());
  for (; entries != fs::directory_iterator(); entries.increment(error)) {
    std::error_code status_error;
    const std::string name = entries->path().filename().string();
    if (!name.starts_with('.') && entries->is_regular_file(status_error) && !status_error)
      found.emplace_back(entries->is_symlink(status_error), name);
  }
  check<DataError>(!error, "{}: the folder cannot be read: {}", folder, error.message());

  std::sort(found.begin(), found.end());
  std::set<std::pair<dev_t, ino_t>> seen;
  std::vector<std::string> names;
  for (const auto& [is_link, name] : found) {
    struct stat status {};
    if (::stat((fs::path(folder) / name).c_str(), &status) == 0 && seen.emplace(status.st_dev, status.st_ino).second)
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace binade::io
