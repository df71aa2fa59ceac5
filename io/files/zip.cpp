#include "binade/io/files/zip.h"

#include <fcntl.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "binade/core/error.h"
#include "binade/io/files/read_file.h"

namespace binade::io {

namespace {

// Deflate compresses 258 bytes to 2 bits at best. Short members have a few bytes more.
constexpr std::uint64_t kMostExpansion = 1032, kSlack = 1024;

struct SourceFree {
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct FileClose {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Source = std::unique_ptr<zip_source_t, SourceFree>;
using Archive = std::unique_ptr<zip_t, Discard>;

/// Owns an error object of libzip: initializes it and finalizes it.
struct ZipError {
  ZipError() { zip_error_init(&error); }
  ~ZipError() { zip_error_fini(&error); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  std::string text() { return zip_error_strerror(&error); }
  zip_error_t error{};
};

/// Opens the archive in a source. On success, the archive owns the source.
Archive open_source(Source source, int flags, ZipError& error) {
  Archive archive(source ? zip_open_from_source(source.get(), flags, &error.error) : nullptr);
  if (archive) static_cast<void>(source.release());
  return archive;
}

}  // namespace

struct ZipReader::Open {
  Archive archive;
};

ZipReader::ZipReader(std::span<const std::byte> archive, const std::string& name)
    : name_(name), open_(std::make_unique<Open>()) {
  ZipError error;
  Source source(zip_source_buffer_create(archive.data(), archive.size(), 0, &error.error));
  open_->archive = open_source(std::move(source), ZIP_RDONLY, error);
  check<DataError>(open_->archive != nullptr, "{}: wanted a zip archive, but {}", name_, error.text());
  list_members(archive.size());
}

ZipReader::ZipReader(const std::string& path) : name_(path), open_(std::make_unique<Open>()) {
  const RegularFile file(path);
  const int descriptor = ::fcntl(file.descriptor(), F_DUPFD_CLOEXEC, 0);
  std::FILE* stream = descriptor < 0 ? nullptr : ::fdopen(descriptor, "rb");
  if (stream == nullptr && descriptor >= 0) ::close(descriptor);
  check<DataError>(stream != nullptr, "{}: cannot be read: {}", path, std::strerror(errno));
  ZipError error;
  Source source(zip_source_filep_create(stream, 0, 0, &error.error));
  if (!source) std::fclose(stream);
  open_->archive = open_source(std::move(source), ZIP_RDONLY, error);
  check<DataError>(open_->archive != nullptr, "{}: wanted a zip archive, but {}", name_, error.text());
  list_members(file.bytes());
}

ZipReader::~ZipReader() = default;

void ZipReader::list_members(std::uint64_t archive_bytes) {
  zip_t* archive = open_->archive.get();
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  std::uint64_t compressed = 0;
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t status;
    zip_stat_init(&status);
    constexpr zip_uint64_t kNeeded = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    const bool known = zip_stat_index(archive, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW, &status) == 0 &&
                       (status.valid & kNeeded) == kNeeded;
    check<DataError>(known, "{}: the zip archive does not describe its member {}", name_, i);
    const std::string member = status.name;
    check<DataError>(status.comp_method == ZIP_CM_STORE || status.comp_method == ZIP_CM_DEFLATE,
                     "{}: the member {} is compressed by method {}; wanted stored or deflated members", name_, member,
                     status.comp_method);
    const std::uint64_t most = status.comp_method == ZIP_CM_STORE
                                   ? status.comp_size
                                   : kSlack + kMostExpansion * std::min(status.comp_size, archive_bytes);
    compressed += std::min(status.comp_size, archive_bytes + 1);
    check<DataError>(status.size <= most && compressed <= archive_bytes,
                     "{}: the member {} states {} bytes, more than an archive of {} bytes can hold", name_, member,
                     status.size, archive_bytes);
    check<DataError>(sizes_.emplace(member, status.size).second, "{}: two members of the zip archive are called {}",
                     name_, member);
  }
}

std::vector<std::byte> ZipReader::read(const std::string& member) const {
  const auto found = sizes_.find(member);
  check<DataError>(found != sizes_.end(), "{}: the zip archive has no member {}", name_, member);
  zip_t* archive = open_->archive.get();
  const std::unique_ptr<zip_file_t, FileClose> file(zip_fopen(archive, member.c_str(), ZIP_FL_ENC_RAW));
  check<DataError>(file != nullptr, "{}: the member {} cannot be read: {}", name_, member,
                   file ? "" : zip_error_strerror(zip_get_error(archive)));
  std::vector<std::byte> bytes(found->second);
  std::uint64_t done = 0;
  while (done < bytes.size()) {
    const zip_int64_t count = zip_fread(file.get(), bytes.data() + done, bytes.size() - done);
    check<DataError>(count > 0, "{}: the member {} is damaged: {}", name_, member,
                     count < 0 ? zip_error_strerror(zip_file_get_error(file.get())) : "its data end early");
    done += static_cast<std::uint64_t>(count);
  }
  std::byte beyond{};  // libzip compares the checksum when it reaches the end
  const zip_int64_t rest = zip_fread(file.get(), &beyond, 1);
  check<DataError>(rest == 0, "{}: the member {} is damaged: {}", name_, member,
                   rest < 0 ? zip_error_strerror(zip_file_get_error(file.get())) : "it is longer than stated");
  return bytes;
}

bool is_zip(std::string_view bytes) { return bytes.starts_with("PK\x03\x04") || bytes.starts_with("PK\x05\x06"); }

std::vector<std::byte> encode_zip(const std::vector<std::pair<std::string, std::vector<std::byte>>>& members,
                                  bool compress) {
  const auto checked = [](bool good, zip_t* archive) {
    check<StorageError>(good, "zip archive: {}", good ? "" : zip_error_strerror(zip_get_error(archive)));
  };
  if (members.empty()) {  // libzip would write nothing
    std::vector<std::byte> bytes(22);
    std::memcpy(bytes.data(), "PK\x05\x06", 4);
    return bytes;
  }
  ZipError error;
  Source memory(zip_source_buffer_create(nullptr, 0, 0, &error.error));
  check<StorageError>(memory != nullptr, "zip archive: {}", error.text());
  zip_source_t* const written = memory.get();
  zip_source_keep(written);  // it is read below, after the archive has released it
  const Source kept(written);
  Archive archive = open_source(std::move(memory), ZIP_TRUNCATE | ZIP_CREATE, error);
  check<StorageError>(archive != nullptr, "zip archive: {}", error.text());
  constexpr zip_uint16_t kMidnight = 0, kFirstOf1980 = (1 << 5) | 1;
  for (const auto& [name, bytes] : members) {
    Source source(zip_source_buffer(archive.get(), bytes.data(), bytes.size(), 0));
    checked(source != nullptr, archive.get());
    const zip_int64_t index = zip_file_add(archive.get(), name.c_str(), source.get(), ZIP_FL_ENC_UTF_8);
    checked(index >= 0, archive.get());
    static_cast<void>(source.release());
    const auto at = static_cast<zip_uint64_t>(index);
    checked(zip_set_file_compression(archive.get(), at, compress ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0) == 0 &&
                zip_file_set_dostime(archive.get(), at, kMidnight, kFirstOf1980, 0) == 0,
            archive.get());
  }
  checked(zip_close(archive.get()) == 0, archive.get());
  static_cast<void>(archive.release());

  zip_stat_t status;
  zip_stat_init(&status);
  const bool open = zip_source_stat(written, &status) == 0 && zip_source_open(written) == 0;
  check<StorageError>(open, "zip archive: {}", zip_error_strerror(zip_source_error(written)));
  std::vector<std::byte> bytes(status.size);
  std::uint64_t done = 0;
  while (done < bytes.size()) {
    const zip_int64_t count = zip_source_read(written, bytes.data() + done, bytes.size() - done);
    if (count <= 0) break;
    done += static_cast<std::uint64_t>(count);
  }
  zip_source_close(written);
  check<StorageError>(done == bytes.size(), "zip archive: it cannot be read back");
  return bytes;
}

}  // namespace binade::io
