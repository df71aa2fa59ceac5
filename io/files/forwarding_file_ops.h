#pragma once

#include <functional>

#include "binade/io/files/file_ops.h"

namespace binade::io {

/// Forwards every call to another FileOps. Base class for tests that change some calls, or act before or after each.
class ForwardingFileOps : public FileOps {
 public:
  explicit ForwardingFileOps(FileOps& to) : to_(to) {}

  int open_folder(const std::string& path, int& folder) override { return pass(&FileOps::open_folder, path, folder); }
  int create_folder(const std::string& path) override { return pass(&FileOps::create_folder, path); }
  int open_folder_in(int folder, const std::string& name, int& opened) override {
    return pass(&FileOps::open_folder_in, folder, name, opened);
  }
  int create_folder_in(int folder, const std::string& name) override {
    return pass(&FileOps::create_folder_in, folder, name);
  }
  int create_exclusive(int folder, const std::string& name, int& file) override {
    return pass(&FileOps::create_exclusive, folder, name, file);
  }
  int open_read(int folder, const std::string& name, int& file) override {
    return pass(&FileOps::open_read, folder, name, file);
  }
  int open_or_create(int folder, const std::string& name, int& file) override {
    return pass(&FileOps::open_or_create, folder, name, file);
  }
  int write(int file, std::span<const std::byte> bytes, std::size_t& written) override {
    return pass(&FileOps::write, file, bytes, written);
  }
  int read_at(int file, std::uint64_t offset, std::span<std::byte> bytes, std::size_t& got) override {
    return pass(&FileOps::read_at, file, offset, bytes, got);
  }
  int truncate(int file, std::uint64_t bytes) override { return pass(&FileOps::truncate, file, bytes); }
  int sync(int file) override { return pass(&FileOps::sync, file); }
  int close(int file) override { return pass(&FileOps::close, file); }
  int drop_cache(int file) override { return pass(&FileOps::drop_cache, file); }
  int status(int file, FileStatus& status) override { return pass(&FileOps::status, file, status); }
  int status_of(int folder, const std::string& name, FileStatus& status) override {
    return pass(&FileOps::status_of, folder, name, status);
  }
  int rename_no_replace(int folder, const std::string& from, const std::string& to) override {
    return pass(&FileOps::rename_no_replace, folder, from, to);
  }
  int rename_over(int folder, const std::string& from, const std::string& to) override {
    return pass(&FileOps::rename_over, folder, from, to);
  }
  int link(int folder, const std::string& from, const std::string& to) override {
    return pass(&FileOps::link, folder, from, to);
  }
  int unlink(int folder, const std::string& name) override { return pass(&FileOps::unlink, folder, name); }
  int list(int folder, std::vector<std::string>& names) override { return pass(&FileOps::list, folder, names); }
  int lock_exclusive(int file) override { return pass(&FileOps::lock_exclusive, file); }

 protected:
  /// Makes a call and returns its result. Every call goes through this function; an override may return an errno value
  /// instead of making the call.
  virtual int around(const std::function<int()>& call) { return call(); }

 private:
  template <class... Parameters, class... Arguments>
  int pass(int (FileOps::*member)(Parameters...), Arguments&... arguments) {
    const auto call = [&] { return (to_.*member)(arguments...); };
    return around(std::ref(call));  // by reference, so that nothing is allocated
  }

  FileOps& to_;
};

}  // namespace binade::io
