#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/runtime.h"
#include "binade/core/state_dict.h"
#include "binade/core/step_context.h"

namespace binade::nn {

class Module;

/// A trainable f32 leaf that a module owns. Its path ("blocks.0.mlp.up.weight") is given by the walk from the root.
class Parameter : public Variable {
 public:
  Parameter() = default;
  /// A value that is not on the runtime's device is copied there.
  explicit Parameter(const Tensor& value)
      : Variable(value.defined() ? value.to(Runtime::current_device()) : value, true) {}
  Tensor& mutable_value() { return state()->value; }
  const std::string& name() const { return state()->name; }
};

/// State that forward changes (batch-norm statistics). Inside a step transaction writes go to a shadow that is
/// committed with the update or dropped with it; outside one they take effect at once.
class Buffer {
 public:
  Buffer() = default;
  /// A value that is not on the runtime's device is copied there.
  explicit Buffer(const Tensor& value) : value_(value.defined() ? value.to(Runtime::current_device()) : value) {}

  /// What forward must read: the shadow inside a transaction that has written it, the committed value else.
  const Tensor& value() const { return shadow_live_ ? shadow_ : value_; }
  const Tensor& committed() const { return value_; }
  Tensor& mutable_committed() { return value_; }
  /// The tensor forward may overwrite: the shadow (a copy made at first use in a transaction) or the value itself.
  Tensor& writable();

  void commit();    ///< the shadow becomes the value (copied: addresses stay)
  void rollback();  ///< the shadow is forgotten
  bool pending() const { return shadow_live_; }

 private:
  Tensor value_;
  Tensor shadow_;
  bool shadow_live_ = false;
};

/// True on this thread while a step transaction is open (set by amp::Trainer).
class TransactionScope {
 public:
  TransactionScope();
  ~TransactionScope();
  TransactionScope(const TransactionScope&) = delete;
  TransactionScope& operator=(const TransactionScope&) = delete;
  static bool active();

 private:
  bool previous_;
};

/// Receives a module's parts by name. One walk serves naming, saving, loading, counting and the optimizer's list.
class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual void operator()(const std::string& name, Parameter& parameter) = 0;
  virtual void operator()(const std::string& name, Buffer& buffer) = 0;
  virtual void operator()(const std::string& name, Module& module) = 0;
};

/// A part of a model: owns parameters, buffers and other modules as plain members and names them in `visit`.
/// Movable, not copyable. Call a module like a function; `forward` is what you write.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  virtual void visit(Visitor& visitor) = 0;
  /// The common case, one tensor to one tensor. A module with another signature defines its own operator() and opens
  /// `ModuleScope scope(*this);` in its first line.
  virtual Variable forward(const Variable& x);
  Variable operator()(const Variable& x);

  /// The kind for summaries and messages: "Linear", "Block".
  virtual std::string kind() const { return "Module"; }

  bool training() const { return training_; }
  void train(bool on = true);  ///< this module and everything below
  void eval() { train(false); }

  const std::string& path() const { return path_; }

 private:
  friend class ModuleScope;
  friend void assign_paths(Module& root, const std::string& prefix);
  std::string path_;
  bool named_ = false;
  bool training_ = true;
};

/// Enters `module`: ops recorded meanwhile carry its path. The outermost module on a thread is the root; entering it
/// names everything below.
class ModuleScope {
 public:
  explicit ModuleScope(Module& module);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  ModulePathScope path_;
};

/// Gives every module, parameter and buffer below `root` its dotted path. Idempotent.
void assign_paths(Module& root, const std::string& prefix = "");

/// Everything below `root`, depth first in visit order, each parameter once (a tied one under its first name).
std::vector<std::pair<std::string, Parameter*>> named_parameters(Module& root);
std::vector<std::pair<std::string, Buffer*>> named_buffers(Module& root);
std::vector<std::pair<std::string, Module*>> named_modules(Module& root);
std::int64_t count_parameters(Module& root);

/// "blocks.0.norm1.weight" -> tensor, parameters and buffers. Loading checks names, shapes and dtypes first and changes
/// nothing unless all fit; throws CheckpointError that lists what is missing, unexpected and different.
StateDict state_dict(Module& root);
/// Throws as loading would.
void check_state_dict(Module& root, const StateDict& state);
void load_state_dict(Module& root, const StateDict& state);

/// Modules of one type in a row; visited as "0", "1", ….
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
  /// Call from visit: `blocks.visit("blocks", visitor)`.
  void visit(const std::string& name, Visitor& visitor) {
    for (std::size_t i = 0; i < items_.size(); ++i) visitor(name + "." + std::to_string(i), items_[i]);
  }

 private:
  std::vector<M> items_;
};

}  // namespace binade::nn
