#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace binade {

/// Base of all exceptions that Binade throws. The text names the op and its module path, what was expected, what was
/// found, and what to do. Programs turn the type into an exit code (docs/exit-codes.md).
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text) : std::runtime_error(text) {}
  /// The exit code of a program that this error ends. 70 means an internal error of Binade.
  virtual int exit_code() const noexcept { return 70; }
};

/// An error with a given exit code.
template <int Code>
class ErrorWithCode : public Error {
 public:
  using Error::Error;
  int exit_code() const noexcept override { return Code; }
};

/// An option, flag or argument outside its range.
struct ArgumentError : ErrorWithCode<20> {
  using ErrorWithCode::ErrorWithCode;
};
/// Tensor extents that do not fit together.
struct ShapeError : ArgumentError {
  using ArgumentError::ArgumentError;
};
/// An element type that an op does not support.
struct DTypeError : ArgumentError {
  using ArgumentError::ArgumentError;
};
/// A missing device, or tensors on different devices.
struct DeviceError : ArgumentError {
  using ArgumentError::ArgumentError;
};
/// A violated rule of autograd, such as a second backward through the same graph, a saved tensor that was changed in
/// place, or backward from a result without history.
struct AutogradError : ArgumentError {
  using ArgumentError::ArgumentError;
};
/// A non-finite number that no remedy could cure.
struct NumericError : ErrorWithCode<30> {
  using ErrorWithCode::ErrorWithCode;
};
/// Data that is missing, unreadable, corrupt or does not fit the task.
struct DataError : ErrorWithCode<40> {
  using ErrorWithCode::ErrorWithCode;
};
/// A checkpoint that does not fit the run: it has another model, precision, optimizer or format.
struct CheckpointError : ErrorWithCode<21> {
  using ErrorWithCode::ErrorWithCode;
};
/// None of the checkpoints could be verified.
struct NoCheckpointError : ErrorWithCode<22> {
  using ErrorWithCode::ErrorWithCode;
};
/// The run folder is locked by another process.
struct LockError : ErrorWithCode<23> {
  using ErrorWithCode::ErrorWithCode;
};
/// A file could not be written. The last committed state is intact.
struct StorageError : ErrorWithCode<24> {
  using ErrorWithCode::ErrorWithCode;
};
/// The device or the host has no memory left.
struct OutOfMemoryError : ErrorWithCode<50> {
  using ErrorWithCode::ErrorWithCode;
};
/// The device stopped working (a fault in a kernel, a lost GPU). The contents of its memory are lost;
/// the last checkpoint is intact.
struct DeviceLostError : ErrorWithCode<51> {
  using ErrorWithCode::ErrorWithCode;
};

/// Base of fmt formatters without format options. It lets check() take such values directly, so that their text is made
/// only if the check fails.
struct PlainFormatter {
  constexpr auto parse(fmt::format_parse_context& ctx) { return ctx.begin(); }
  static auto write(std::string_view text, fmt::format_context& ctx) {
    auto out = ctx.out();
    for (const char c : text) *out++ = c;
    return out;
  }
};

/// Throws `E` with the formatted text unless `condition` holds. Pass shapes and where(op) as they are instead of their
/// to_string(), which would be evaluated even if the check holds.
template <class E, class... Args>
void check(bool condition, fmt::format_string<Args...> text, Args&&... args) {
  if (!condition) [[unlikely]]
    throw E(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace binade
