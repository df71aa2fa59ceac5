#pragma once

#include <functional>

#include "binade/io/files/file_ops.h"

namespace binade::io {

/// Hands every call on to another FileOps: for those that change a few, or do something around each.
class ForwardingFileOps : public FileOps {
 public:
  explicit ForwardingFileOps(FileOps& to) : to_(to) {}

  int open_folder(const std::string& path, int& folder) override {
    return pass([&] { return to_.open_folder(path, folder); });
  }
  int create_folder(const std::string& path) override {
    return pass([&] { return to_.create_folder(path); });
  }
  int open_folder_in(int folder, const std::string& name, int& opened) override {
    return pass([&] { return to_.open_folder_in(folder, name, opened); });
  }
  int create_folder_in(int folder, const std::string& name) override {
    return pass([&] { return to_.create_folder_in(folder, name); });
  }
  int create_exclusive(int folder, const std::string& name, int& file) override {
    return pass([&] { return to_.create_exclusive(folder, name, file); });
  }
  int open_read(int folder, const std::string& name, int& file) override {
    return pass([&] { return to_.open_read(folder, name, file); });
  }
  int open_or_create(int folder, const std::string& name, int& file) override {
    return pass([&] { return to_.open_or_create(folder, name, file); });
  }
  int write(int file, std::span<const std::byte> bytes, std::size_t& written) override {
    return pass([&] { return to_.write(file, bytes, written); });
  }
  int read_at(int file, std::uint64_t offset, std::span<std::byte> bytes, std::size_t& got) override {
    return pass([&] { return to_.read_at(file, offset, bytes, got); });
  }
  int truncate(int file, std::uint64_t bytes) override {
    return pass([&] { return to_.truncate(file, bytes); });
  }
  int sync(int file) override {
    return pass([&] { return to_.sync(file); });
  }
  int close(int file) override {
    return pass([&] { return to_.close(file); });
  }
  int drop_cache(int file) override {
    return pass([&] { return to_.drop_cache(file); });
  }
  int status(int file, FileStatus& status) override {
    return pass([&] { return to_.status(file, status); });
  }
  int status_of(int folder, const std::string& name, FileStatus& status) override {
    return pass([&] { return to_.status_of(folder, name, status); });
  }
  int rename_no_replace(int folder, const std::string& from, const std::string& to) override {
    return pass([&] { return to_.rename_no_replace(folder, from, to); });
  }
  int rename_over(int folder, const std::string& from, const std::string& to) override {
    return pass([&] { return to_.rename_over(folder, from, to); });
  }
  int link(int folder, const std::string& from, const std::string& to) override {
    return pass([&] { return to_.link(folder, from, to); });
  }
  int unlink(int folder, const std::string& name) override {
    return pass([&] { return to_.unlink(folder, name); });
  }
  int list(int folder, std::vector<std::string>& names) override {
    return pass([&] { return to_.list(folder, names); });
  }
  int lock_exclusive(int file) override {
    return pass([&] { return to_.lock_exclusive(file); });
  }

 protected:
  /// Every call comes through here. Makes it and returns its answer; one that makes none returns an errno.
  virtual int around(const std::function<int()>& call) { return call(); }

 private:
  template <class Call>
  int pass(Call call) {
    return around(std::ref(call));  // by reference: nothing is allocated
  }

  FileOps& to_;
};

}  // namespace binade::io
