#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace binade {

/// Removes a hook. Discarding the handle keeps the hook.
class HookHandle {
 public:
  HookHandle() = default;
  explicit HookHandle(std::function<void()> remove) : remove_(std::move(remove)) {}
  /// Does nothing if the hook was removed before, or is gone with its module or variable.
  void remove() {
    if (remove_) std::exchange(remove_, nullptr)();
  }

 private:
  std::function<void()> remove_;
};

/// Returns the number of hooks in this process, of all modules and variables. Captured graphs call no host functions,
/// so that steps run eagerly while there are hooks.
std::int64_t live_hooks();

namespace detail {

/// An object that live_hooks() counts during its lifetime.
class LiveHook {
 public:
  LiveHook();
  ~LiveHook();
  LiveHook(const LiveHook&) = delete;
  LiveHook& operator=(const LiveHook&) = delete;
};

/// Hooks of one kind, in the order in which they were added.
template <class F>
class HookList {
 public:
  bool empty() const { return hooks_->empty(); }
  HookHandle add(F f) {
    hooks_->push_back(std::make_shared<Hook>(std::move(f)));
    return HookHandle([list = std::weak_ptr(hooks_), hook = std::weak_ptr(hooks_->back())] {
      if (const auto hooks = list.lock()) std::erase(*hooks, hook.lock());
    });
  }
  /// Calls f(hook) for each hook. Hooks may add and remove hooks; this affects the next call.
  template <class Call>
  void for_each(Call&& call) const {
    for (const std::shared_ptr<Hook>& hook : std::vector(*hooks_)) call(hook->function);
  }

 private:
  struct Hook {
    explicit Hook(F f) : function(std::move(f)) {}
    F function;
    LiveHook counted{};
  };
  std::shared_ptr<std::vector<std::shared_ptr<Hook>>> hooks_ = std::make_shared<std::vector<std::shared_ptr<Hook>>>();
};

/// Returns `f` as a function that returns an R: a default-constructed one if `f` returns nothing.
template <class R, class F>
auto returning(F f) {
  return [f = std::move(f)](auto&&... arguments) -> R {
    if constexpr (std::is_void_v<std::invoke_result_t<const F&, decltype(arguments)...>>) {
      f(std::forward<decltype(arguments)>(arguments)...);
      return R{};
    } else {
      return f(std::forward<decltype(arguments)>(arguments)...);
    }
  };
}

}  // namespace detail

}  // namespace binade
