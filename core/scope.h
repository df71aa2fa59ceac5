#pragma once

#include <utility>

namespace binade {

/// Base of types that can be neither copied nor moved.
class NonCopyable {
 public:
  NonCopyable(const NonCopyable&) = delete;
  NonCopyable& operator=(const NonCopyable&) = delete;

 protected:
  NonCopyable() = default;
  ~NonCopyable() = default;
};

/// Gives `variable` another value for the lifetime of the object.
template <class T>
class ScopedValue : NonCopyable {
 public:
  ScopedValue(T& variable, T value) : variable_(variable), previous_(std::exchange(variable, std::move(value))) {}
  ~ScopedValue() { variable_ = std::move(previous_); }

 private:
  T& variable_;
  T previous_;
};

/// Calls a function when the scope ends.
template <class F>
class AtScopeExit : NonCopyable {
 public:
  explicit AtScopeExit(F function) : function_(std::move(function)) {}
  ~AtScopeExit() { function_(); }

 private:
  F function_;
};

}  // namespace binade
