#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace binade {

/// Root of everything Binade throws. The text names the op and its module path, what it wanted, what it got and what
/// to do. Programs turn the type into an exit code (`exit_code()`, see docs/exit-codes.md).
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text) : std::runtime_error(text) {}
  /// The process exit code that fits: 70 means a fault of Binade's own.
  virtual int exit_code() const noexcept { return 70; }
};

/// An option, flag or argument outside its range.
class ArgumentError : public Error {
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 20; }
};

/// Tensor extents that do not fit together.
class ShapeError : public ArgumentError {
 public:
  using ArgumentError::ArgumentError;
};

/// An element type that an op does not take.
class DTypeError : public ArgumentError {
 public:
  using ArgumentError::ArgumentError;
};

/// A device that is missing, or tensors on different devices.
class DeviceError : public ArgumentError {
 public:
  using ArgumentError::ArgumentError;
};

/// An autograd rule was broken: backward twice, a saved tensor changed in place, no gradient to be had.
class AutogradError : public ArgumentError {
 public:
  using ArgumentError::ArgumentError;
};

/// A number went bad and the remedies are spent.
class NumericError : public Error {
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 30; }
};

/// Data that is missing, unreadable, corrupt or does not fit the task.
class DataError : public Error {
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 40; }
};

/// A checkpoint of another model, precision, optimizer or format.
class CheckpointError : public Error {
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 21; }
};

/// There is no checkpoint that could be verified.
class NoCheckpointError : public Error {
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 22; }
};

/// Another process holds the run folder.
class LockError : public Error {
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 23; }
};

/// The disk refused; the last commit is intact.
class StorageError : public Error {
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 24; }
};

/// No memory left on the device (or the host).
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 50; }
};

/// The device stopped answering (a fault in a kernel, a lost GPU). Everything on it is gone; the last commit is intact.
class DeviceLostError : public Error {
 public:
  using Error::Error;
  int exit_code() const noexcept override { return 51; }
};

/// Base of the formatters by which messages take a value of ours as it is: its text is only made when a check fails.
struct PlainFormatter {
  constexpr auto parse(fmt::format_parse_context& ctx) { return ctx.begin(); }
  static auto write(std::string_view text, fmt::format_context& ctx) {
    auto out = ctx.out();
    for (const char c : text) *out++ = c;
    return out;
  }
};

/// Throws `E` with the formatted text unless `condition` holds. Pass shapes and where(op) as they are: to_string()
/// would be paid for by every check that holds.
template <class E, class... Args>
void check(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) [[unlikely]]
    throw E(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace binade
