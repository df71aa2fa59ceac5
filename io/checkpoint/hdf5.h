#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

#include "binade/core/dtype.h"
#include "binade/core/error.h"

/// Owned handles over HDF5's C API. For the .cpp files of io/ only: nothing outside sees hdf5.h.
namespace binade::io::hdf5 {

/// Open one around every use of the library. Keeps it from printing its error stack to stderr on this thread (the stack
/// goes into our messages), and Binade's other threads out of it: not every build of it has a lock of its own, and a
/// child process forked meanwhile finds that lock open.
class QuietErrors {
 public:
  QuietErrors();
  ~QuietErrors();
  QuietErrors(const QuietErrors&) = delete;
  QuietErrors& operator=(const QuietErrors&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> alone_;
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// Plugins are never loaded. Called by everything here that opens a file.
void disable_plugins();

/// What the library has to say about the last failure on this thread, innermost cause first, in one line.
std::string error_stack();

/// An hid_t and the call that closes it.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, -1);
      close_ = other.close_;
    }
    return *this;
  }
  hid_t get() const { return id_; }
  /// Gives the id away, to close it with the error seen.
  hid_t release() { return std::exchange(id_, -1); }

 private:
  void reset() {
    if (id_ >= 0) close_(std::exchange(id_, -1));
  }
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Owns a fresh id; throws E("what: HDF5 says …") when the call failed.
template <class E = DataError>
Handle own(hid_t id, Handle::Close close, const std::string& what) {
  if (id < 0) throw E(what + ": " + error_stack());
  return Handle(id, close);
}

/// Throws E when a call returned a negative value; returns the value.
template <class E = DataError, class Result>
Result checked(Result result, const std::string& what) {
  if (result < 0) throw E(what + ": " + error_stack());
  return result;
}

/// The type in which a tensor's elements lie in a file, and in memory: nothing is ever converted by the library, whose
/// conversion to 16-bit floats is wrong for some values by a factor of two. f16 is IEEE binary16, bf16 a described
/// float; bool and u8 are both unsigned bytes.
Handle file_type(DType dtype);

}  // namespace binade::io::hdf5
