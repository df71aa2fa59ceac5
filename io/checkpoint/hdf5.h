#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

#include "binade/core/dtype.h"
#include "binade/core/error.h"

/// Owning handles over HDF5's C API, for the .cpp files of io/ only. No other header of Binade includes hdf5.h.
namespace binade::io::hdf5 {

/// An object of this class must exist during every use of the HDF5 library. It keeps the library from printing its
/// error stack to stderr on this thread (the stack becomes part of Binade's messages). It also holds a lock that keeps
/// Binade's other threads out of the library: not every build of the library has a lock of its own, and no other thread
/// may be inside of it during a fork(), because the child process would inherit the library's lock in its held state.
class QuietErrors {
 public:
  QuietErrors();
  ~QuietErrors();
  QuietErrors(const QuietErrors&) = delete;
  QuietErrors& operator=(const QuietErrors&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> alone_;  // held, because one thread at a time uses the library
  H5E_auto2_t function_ = nullptr;                // the library's error handler, which the destructor restores
  void* data_ = nullptr;                          // argument of function_
};

/// Disables the library's plugins. Must be called before a file is opened.
void disable_plugins();

/// Returns the library's description of the last failure on this thread in one line, innermost cause first.
std::string error_stack();

/// Owns an hid_t, the HDF5 library's id of an open object, and closes it.
class Handle {
 public:
  /// The library function that closes an hid_t of one kind.
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
  /// Gives up ownership of the id, for a caller that checks the result of closing it.
  hid_t release() { return std::exchange(id_, -1); }

 private:
  void reset() {
    if (id_ >= 0) close_(std::exchange(id_, -1));
  }
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Takes ownership of a new id; throws E("what: HDF5 says …") if the call that returned it failed.
template <class E = DataError>
Handle own(hid_t id, Handle::Close close, const std::string& what) {
  if (id < 0) throw E(what + ": " + error_stack());
  return Handle(id, close);
}

/// Returns the result of a call; throws E if it is negative.
template <class E = DataError, class Result>
Result checked(Result result, const std::string& what) {
  if (result < 0) throw E(what + ": " + error_stack());
  return result;
}

/// Returns the HDF5 type of a tensor's elements, in the file and in memory: the library never converts values, because
/// its conversion to 16-bit floats is wrong by a factor of two for some values. f16 is IEEE binary16, bf16 a custom
/// float; bool and u8 are both unsigned bytes.
Handle file_type(DType dtype);

}  // namespace binade::io::hdf5
