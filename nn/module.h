#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "binade/autograd/hooks.h"
#include "binade/autograd/variable.h"
#include "binade/core/runtime.h"
#include "binade/core/scope.h"
#include "binade/core/state_dict.h"
#include "binade/core/step_context.h"

namespace binade::nn {

class Module;

/// A trainable f32 leaf that a module owns. Its path ("blocks.0.mlp.up.weight") is set by assign_paths().
class Parameter : public Variable {
 public:
  Parameter() = default;
  /// Copies the value to the runtime's device if it is elsewhere.
  explicit Parameter(const Tensor& value)
      : Variable(value.defined() ? value.to(Runtime::current_device()) : value, true) {
    state()->parameter = true;
  }
  /// The value, to be written before the first step or between steps. A closure that writes a parameter is an error of
  /// the Trainer, because a step could not undo the write; numbers that forward writes belong into a Buffer.
  Tensor& mutable_value();
  const std::string& name() const { return state()->name; }
};

/// State that forward changes (batch-norm statistics). Inside a step transaction, writes go to a shadow copy that is
/// committed or dropped with the update; outside, they take effect at once.
class Buffer {
 public:
  Buffer() = default;
  /// Copies the value to the runtime's device if it is elsewhere.
  explicit Buffer(const Tensor& value)
      : value_(value.defined() ? value.to(Runtime::current_device()).with_counted_writes() : value) {}

  /// The value that forward reads: the shadow if the open transaction has written it, else the committed value.
  const Tensor& value() const { return pending() ? shadow_ : value_; }
  const Tensor& committed() const { return value_; }  ///< the value without changes of the open transaction
  Tensor& mutable_committed() { return value_; }
  /// The tensor that forward may overwrite: the shadow (copied at the first use in a transaction) or the committed
  /// value.
  Tensor& writable();

  void commit();    ///< copies the shadow into the committed value, whose address does not change
  void rollback();  ///< drops the shadow, so that value() is the committed value again
  bool pending() const { return live_ && *live_; }  ///< true if the open transaction has written the shadow

 private:
  Tensor value_;
  Tensor shadow_;
  std::shared_ptr<const bool> live_;  // of the Shadows that the shadow belongs to; null: there is no shadow
};

/// The shadows that buffers of one or more models get in step transactions, including buffers that no visit() names.
/// The destructor drops them.
class Shadows : NonCopyable {
 public:
  Shadows() = default;
  ~Shadows() { *live_ = false; }
  /// Drops the shadows that are neither committed nor rolled back.
  void drop();
  /// Leaves the shadows to their buffers, so that they outlive this object.
  void release() { live_ = std::make_shared<bool>(true); }

 private:
  friend class Buffer;
  std::shared_ptr<bool> live_ = std::make_shared<bool>(true);  // false: dropped
};

/// During its lifetime, a step transaction is open on this thread, so that buffers write to their shadows. The shadows
/// may outlive the scope. amp::Trainer creates it.
class TransactionScope : ScopedValue<const Shadows*> {
 public:
  /// The shadows remain until each buffer commits its own or rolls it back.
  TransactionScope();
  /// The shadows belong to `shadows`, which must outlive the scope.
  explicit TransactionScope(const Shadows& shadows);
  static bool active();
};

/// The path of a module, which one thread may set while others read it: every text that get() has returned stays valid
/// until the path is destroyed.
class ModulePath {
 public:
  ModulePath() = default;
  ModulePath(ModulePath&& other) noexcept : last_(other.last_.exchange(nullptr)) {}
  ModulePath& operator=(ModulePath&& other) noexcept;
  ~ModulePath();
  /// Returns the path; null before the first set().
  const std::string* get() const;
  /// Sets the path. No other thread may be in set().
  void set(const std::string& path);

 private:
  struct Text;
  std::atomic<Text*> last_ = nullptr;  // the current text, with a list of the earlier ones
};

/// Receives the parameters, buffers and submodules of a module, each with its name. Saving, loading, counting and
/// listing of parameters are visitors.
class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual void operator()(const std::string& name, Parameter& parameter) = 0;
  virtual void operator()(const std::string& name, Buffer& buffer) = 0;
  virtual void operator()(const std::string& name, Module& module) = 0;
};

/// The hooks of a module (Module::register_forward_hook).
struct ModuleHooks {
  detail::HookList<std::function<Variable(Module&, const Variable& x)>> before_forward{};
  detail::HookList<std::function<Variable(Module&, const Variable& x, const Variable& y)>> after_forward{};
  detail::HookList<std::function<Variable(Module&, const Variable& gx, const Variable& gy)>> backward{};
};

/// Base class of models and layers. Owns parameters, buffers and submodules as plain members and names them in visit().
/// Movable, not copyable. Implement forward(), and call the module like a function.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  Module(const Module&) = delete;  // pass models as Module& or F&&, never by value
  Module& operator=(const Module&) = delete;

  virtual void visit(Visitor& visitor) = 0;  ///< calls visitor(name, part) for each member that is a part of the module
  /// Computes the output of the module from its input. A module with other arguments or results defines its own
  /// operator() instead, which begins with `ModuleScope scope(*this);`.
  virtual Variable forward(const Variable& x);
  Variable operator()(const Variable& x);

  /// Type name for summaries and messages: "Linear", "Block".
  virtual std::string kind() const { return "Module"; }

  bool training() const;
  void train(bool on = true);  ///< sets training or evaluation mode for this module and all submodules
  void eval() { train(false); }
  /// Freezes all parameters of this module and its submodules (false), or trains them again (Variable::requires_grad).
  void requires_grad(bool on);

  /// Returns the path that assign_paths() has given the module; empty before, and at the root.
  const std::string& path() const;

  // Hooks are called when the module is called with one argument, in the order of their registration, also in replays,
  // recomputed segments and evaluations; docs/user-training.md says what they may do. A hook returns nothing, or a
  // variable that replaces x, y or gx as stated below. A module that has hooks and its own operator() throws
  // ArgumentError when it is called.

  /// Calls `hook(module, x)` before forward(x). Its result replaces x.
  template <class F>
  HookHandle register_forward_pre_hook(F hook) {
    return hooks().before_forward.add(detail::returning<Variable>(std::move(hook)));
  }
  /// Calls `hook(module, x, y)` after y = forward(x). Its result replaces y.
  template <class F>
  HookHandle register_forward_hook(F hook) {
    return hooks().after_forward.add(detail::returning<Variable>(std::move(hook)));
  }
  /// Calls `hook(module, gx, gy)` in backward, with the gradients of x and y = forward(x). Its result replaces gx. If x
  /// needs no gradient, gx is undefined, and the hook must return nothing.
  template <class F>
  HookHandle register_backward_hook(F hook) {
    return hooks().backward.add(detail::returning<Variable>(std::move(hook)));
  }
  bool has_hooks() const { return hooks_ != nullptr; }  ///< true if hooks were ever registered

 private:
  ModuleHooks& hooks();
  Variable forward_with_hooks(const Variable& input);
  friend class ModuleScope;
  friend void assign_paths(Module& root, const std::string& prefix);
  std::unique_ptr<ModuleHooks> hooks_;  // null in a module that never had any
  ModulePath path_;
  bool training_ = true;
};

/// Base of layers without parameters and buffers.
class StatelessModule : public Module {
 public:
  void visit(Visitor&) override {}
};

/// Base of layers without parameters and buffers whose only state is their options.
template <class Options>
class OptionsModule : public StatelessModule {
 public:
  explicit OptionsModule(const Options& options = {}) : options_(options) {}
  const Options& options() const { return options_; }

 private:
  Options options_;
};

/// Base of layers with a weight and an optional bias.
class WeightedModule : public Module {
 public:
  void visit(Visitor& visitor) override {
    visitor("weight", weight);
    visitor("bias", bias);
  }

  Parameter weight, bias;  ///< bias is undefined in a layer without one
};

/// During its lifetime, ops of this thread get the path of `module`. If it has none and is the outermost module on its
/// thread, it becomes a root, and its ModuleScope assigns the paths of all submodules.
class ModuleScope : NonCopyable {
 public:
  /// Throws ArgumentError if the module has hooks, which a module's own operator() does not call.
  explicit ModuleScope(Module& module) : ModuleScope(module, false) {}
  ~ModuleScope();

 private:
  friend class Module;
  ModuleScope(Module& module, bool calls_hooks);
  static std::string path_on_entry(Module& module);
  ModulePathScope path_;
};

/// Gives every submodule, parameter and buffer of `root` its dotted path, which begins with `prefix`. A module that
/// several parents share (nn/shared.h) has the first of its paths. Calling it again changes nothing. Threads may call
/// it at the same time. Throws ArgumentError if a visit() gives one name to two members.
void assign_paths(Module& root, const std::string& prefix = "");

/// Return all parameters, buffers or submodules of `root` with their paths, depth first in the order of visit(). Each
/// is listed once: a tied parameter, and the parts of a shared module, under their first names.
std::vector<std::pair<std::string, Parameter*>> named_parameters(Module& root);
std::vector<std::pair<std::string, Buffer*>> named_buffers(Module& root);
std::vector<std::pair<std::string, Module*>> named_modules(Module& root);
std::int64_t count_parameters(Module& root);

/// Returns all parameters and buffers of `root`, with names such as "blocks.0.norm1.weight".
StateDict state_dict(Module& root);
/// Throws the error that load_state_dict() would throw, if any, and changes nothing.
void check_state_dict(Module& root, const StateDict& state);
/// Options of load_state_dict().
struct LoadOptions {
  bool strict = true;  ///< false: loads the entries that both have, and returns the names of the others
};
/// Names that only one of model and state has; empty after a strict call.
struct LoadResult {
  std::vector<std::string> missing{};     ///< parameters and buffers that the state lacks; they keep their values
  std::vector<std::string> unexpected{};  ///< entries of the state that the model lacks
};
/// Copies the entries of `state` into the parameters and buffers of `root`. Checks names, shapes and dtypes first;
/// unless all fit, changes nothing and throws a CheckpointError that lists missing, unexpected and different entries.
/// Without `strict`, only different shapes and dtypes are errors.
LoadResult load_state_dict(Module& root, const StateDict& state, const LoadOptions& options = {});

/// A list of modules of one type, whose names are "0", "1", ….
template <class M>
class ModuleList {
 public:
  template <class... Args>
  M& emplace_back(Args&&... args) {
    return items_.emplace_back(std::forward<Args>(args)...);
  }
  void reserve(std::size_t n) { items_.reserve(n); }
  std::size_t size() const { return items_.size(); }
  M& operator[](std::size_t i) { return items_[i]; }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }
  /// Visits the modules as NAME.0, NAME.1, …. The owner calls it in its visit(): `blocks.visit("blocks", visitor)`.
  void visit(const std::string& name, Visitor& visitor) {
    for (std::size_t i = 0; i < items_.size(); ++i) visitor(name + "." + std::to_string(i), items_[i]);
  }

 private:
  std::vector<M> items_;
};

}  // namespace binade::nn
