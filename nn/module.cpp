#include "binade/nn/module.h"

#include <fmt/ranges.h>

#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "binade/autograd/inference_mode.h"
#include "binade/core/error.h"
#include "binade/nn/module_use.h"

namespace binade::nn {

namespace {

thread_local const Shadows* open_transaction = nullptr;  // its shadows; null: no transaction is open
thread_local int module_depth = 0;

/// Returns the Shadows of transactions without Shadows of their own. They are never dropped together.
const Shadows& kept_shadows() {
  static const Shadows& kept = *new Shadows;
  return kept;
}

std::string join(const std::string& prefix, const std::string& name) {
  if (prefix.empty()) return name;
  return name.empty() ? prefix : prefix + "." + name;
}

/// Visits all submodules, parameters and buffers of a module and passes each to a callback with its full path.
class Walk final : public Visitor {
 public:
  using Visitor::operator();
  explicit Walk(std::string prefix) : prefix_(std::move(prefix)) {}

  std::function<void(const std::string&, Parameter&)> on_parameter = [](const std::string&, Parameter&) {};
  std::function<void(const std::string&, Buffer&)> on_buffer = [](const std::string&, Buffer&) {};
  std::function<void(const std::string&, Module&)> on_module = [](const std::string&, Module&) {};
  bool unnamed = false;  ///< in on_module: the module has an empty name, so that its path is that of its parent

  void operator()(const std::string& name, Parameter& parameter) override {
    if (parameter.defined()) on_parameter(join(prefix_, name), parameter);
  }
  void operator()(const std::string& name, Buffer& buffer) override {
    if (buffer.committed().defined()) on_buffer(join(prefix_, name), buffer);
  }
  void operator()(const std::string& name, Module& module) override {
    const std::string outer = prefix_;
    prefix_ = join(prefix_, name);
    unnamed = name.empty();
    on_module(prefix_, module);
    module.visit(*this);
    prefix_ = outer;
  }

 private:
  std::string prefix_;
};

/// Returns parameters and buffers of a model under their checkpoint names.
std::map<std::string, Tensor> tensors_of(Module& root) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, parameter] : named_parameters(root)) tensors.emplace(name, parameter->value());
  for (const auto& [name, buffer] : named_buffers(root)) tensors.emplace(name, buffer->committed());
  return tensors;
}

std::string describe(const Tensor& tensor) { return fmt::format("{} {}", name_of(tensor.dtype()), tensor.shape()); }

using Names = std::vector<std::string>;

/// The entries in which a model and a state differ.
struct Differences {
  Names missing{}, unexpected{};
  Names different{};  ///< names with descriptions: "d (wanted f32 (2), got f32 (3))"

  Differences(const std::map<std::string, Tensor>& wanted, const StateDict& state) {
    for (const auto& [name, tensor] : wanted) {
      const auto found = state.values().find(name);
      if (found == state.values().end()) {
        missing.push_back(name);
      } else if (const auto* got = std::get_if<Tensor>(&found->second); got == nullptr) {
        different.push_back(fmt::format("{} (wanted {}, got an entry that is no tensor)", name, describe(tensor)));
      } else if (got->shape() != tensor.shape() || got->dtype() != tensor.dtype()) {
        different.push_back(fmt::format("{} (wanted {}, got {})", name, describe(tensor), describe(*got)));
      }
    }
    for (const auto& entry : state.values())
      if (!wanted.contains(entry.first)) unexpected.push_back(entry.first);
  }

  /// Returns "missing: a, b; unexpected: c; different: d (…)", or an empty text if there are none. Without `strict`,
  /// only those that are different count.
  std::string to_string(bool strict) const {
    std::string text;
    const auto append = [&text](const char* title, const Names& list) {
      if (!list.empty()) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", title, fmt::join(list, ", "));
    };
    if (strict) append("missing", missing);
    if (strict) append("unexpected", unexpected);
    append("different", different);
    return text;
  }
};

/// Held by the thread that assigns paths. Recursive, because a visit() may assign paths to a part.
std::recursive_mutex& paths_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// Returns all parts of `root` that Walk passes to `callback`, with their paths. Parts that `identity` maps to the same
/// address are listed once, under the first path.
template <class Part>
std::vector<std::pair<std::string, Part*>> collect(
    Module& root, std::function<void(const std::string&, Part&)> Walk::*callback,
    const void* (*identity)(Part&) = [](Part& part) -> const void* { return &part; }) {
  std::vector<std::pair<std::string, Part*>> found;
  std::set<const void*> seen;
  Walk walk("");
  walk.*callback = [&](const std::string& path, Part& part) {
    if (seen.insert(identity(part)).second) found.emplace_back(path, &part);
  };
  root.visit(walk);
  return found;
}

/// True if a hook has returned a value, false if it returned nothing.
bool is_given(const Variable& result) { return result.defined() && result.value().defined(); }

/// Throws CheckpointError if `state` does not fit a model with the tensors `wanted`. Returns the differences.
Differences checked_differences(const std::map<std::string, Tensor>& wanted, const StateDict& state, bool strict) {
  Differences found(wanted, state);
  const std::string problems = found.to_string(strict);
  check<CheckpointError>(
      problems.empty(),
      "load_state_dict: wanted the parameters and buffers of this model, got a state that differs; {}; "
      "build the model with the settings it was saved with",
      problems);
  return found;
}

}  // namespace

Tensor& Parameter::mutable_value() {
  ModuleUse::note_parameter(name());
  return state()->value;
}

Tensor& Buffer::writable() {
  if (InferenceMode::active())
    InferenceMode::refuse(where("an update of statistics or scales").to_string(), "call eval() on the model first");
  ModuleUse::note_write(*this);
  if (pending()) return shadow_;
  if (!TransactionScope::active()) {
    value_.bump_version();
    return value_;
  }
  if (shadow_.defined() && shadow_.shape() == value_.shape() && shadow_.dtype() == value_.dtype())
    shadow_.copy_from(value_);
  else
    shadow_ = value_.clone();
  live_ = open_transaction->live_;
  return shadow_;
}

void Buffer::commit() {
  if (!pending()) return;
  value_.copy_from(shadow_);
  live_.reset();
}

void Buffer::rollback() { live_.reset(); }

void Shadows::drop() {
  *live_ = false;
  live_ = std::make_shared<bool>(true);
}

TransactionScope::TransactionScope() : TransactionScope(kept_shadows()) {}
TransactionScope::TransactionScope(const Shadows& shadows) : ScopedValue(open_transaction, &shadows) {}
bool TransactionScope::active() { return open_transaction != nullptr; }

Variable Module::forward(const Variable&) {
  throw ArgumentError(fmt::format(
      "{}: wanted forward(x), got a module that takes other arguments; call its own operator()", where(kind())));
}

Variable Module::operator()(const Variable& x) {
  const ModuleScope scope(*this, true);
  return hooks_ ? forward_with_hooks(x) : forward(x);
}

ModuleHooks& Module::hooks() {
  if (!hooks_) hooks_ = std::make_unique<ModuleHooks>();
  return *hooks_;
}

Variable Module::forward_with_hooks(const Variable& input) {
  Variable x = input;
  hooks_->before_forward.for_each([&](const auto& hook) {
    if (const Variable changed = hook(*this, x); is_given(changed)) x = changed;
  });
  const auto gradient_of_y = std::make_shared<Tensor>();
  const auto call_backward_hooks = [this, gradient_of_y](Variable gx) {
    hooks_->backward.for_each([&](const auto& hook) {
      const Variable changed = hook(*this, gx, Variable(*gradient_of_y));
      check<AutogradError>(!is_given(changed) || gx.defined(),
                           "{}: a backward hook returned a gradient, but the input of the module needs none",
                           path().empty() ? kind() : fmt::format("{} [{}]", kind(), path()));
      if (is_given(changed)) gx = changed;
    });
    return gx;
  };
  const bool backward = !hooks_->backward.empty(), x_needs_grad = x.requires_grad();
  if (backward) x = with_gradient_hook(x, [=](const Variable& gx) { return call_backward_hooks(gx); });
  Variable y = forward(x);
  if (backward)
    y = with_gradient_hook(y, [=](const Variable& gy) {
      *gradient_of_y = gy.value();
      return x_needs_grad ? Variable() : call_backward_hooks(Variable());
    });
  hooks_->after_forward.for_each([&](const auto& hook) {
    if (const Variable changed = hook(*this, x, y); is_given(changed)) y = changed;
  });
  return y;
}

bool Module::training() const {
  training_ ? ModuleUse::note_mode(*this) : ModuleUse::note_evaluation(*this);
  return training_;
}

void Module::requires_grad(bool on) {
  for (const auto& [name, parameter] : named_parameters(*this)) parameter->requires_grad(on);
}

void Module::train(bool on) {
  training_ = on;
  Walk walk("");
  walk.on_module = [on](const std::string&, Module& module) { module.training_ = on; };
  visit(walk);
}

struct ModulePath::Text {
  std::string text;
  std::unique_ptr<Text> earlier;
};

ModulePath& ModulePath::operator=(ModulePath&& other) noexcept {
  if (this != &other) delete last_.exchange(other.last_.exchange(nullptr));
  return *this;
}
ModulePath::~ModulePath() { delete last_.load(); }
const std::string* ModulePath::get() const {
  const Text* const last = last_.load(std::memory_order_acquire);
  return last != nullptr ? &last->text : nullptr;
}
void ModulePath::set(const std::string& path) {
  Text* const last = last_.load(std::memory_order_relaxed);
  if (last != nullptr && last->text == path) return;
  last_.store(new Text{path, std::unique_ptr<Text>(last)}, std::memory_order_release);
}

const std::string& Module::path() const {
  static const std::string kNone;
  const std::string* const path = path_.get();
  return path != nullptr ? *path : kNone;
}

/// Returns the path that ops of `module` get. A module that its parent's visit() leaves out has no path of its own: its
/// ops get the path of the module that called it.
std::string ModuleScope::path_on_entry(Module& module) {
  if (const std::string* const path = module.path_.get()) return *path;
  if (module_depth > 0) return step_context().module_path;
  const std::lock_guard lock(paths_mutex());
  if (module.path_.get() == nullptr) assign_paths(module);  // else another thread has assigned it meanwhile
  return module.path();
}

ModuleScope::ModuleScope(Module& module, bool calls_hooks) : path_(path_on_entry(module)) {
  check<ArgumentError>(calls_hooks || !module.hooks_,
                       "{}: this module has hooks, but its own operator() does not call them; register them with its "
                       "submodules, or with variables (Variable::register_hook)",
                       where(module.kind()));
  ++module_depth;
}
ModuleScope::~ModuleScope() { --module_depth; }

void assign_paths(Module& root, const std::string& prefix) {
  const std::lock_guard lock(paths_mutex());
  std::set<const void*> seen;
  std::map<std::string, const void*> members;
  const auto check_name = [&](const std::string& path, const void* member) {
    check<ArgumentError>(members.try_emplace(path, member).first->second == member,
                         "{}: visit() gives the name '{}' to two members, so that a checkpoint could hold only one of "
                         "them; give each its own name",
                         root.kind(), path);
  };
  Walk walk(prefix);
  walk.on_module = [&](const std::string& path, Module& module) {
    if (!walk.unnamed) check_name(path, &module);
    if (seen.insert(&module).second) module.path_.set(path);
  };
  walk.on_buffer = [&](const std::string& path, Buffer& buffer) { check_name(path, &buffer); };
  walk.on_parameter = [&](const std::string& path, Parameter& parameter) {
    check_name(path, parameter.state().get());
    std::string& name = parameter.state()->name;
    if (seen.insert(parameter.state().get()).second && name != path) name = path;
  };
  root.visit(walk);
  root.path_.set(prefix);  // last: a thread that finds it set enters submodules without the lock
}

std::vector<std::pair<std::string, Parameter*>> named_parameters(Module& root) {
  return collect<Parameter>(root, &Walk::on_parameter,
                            [](Parameter& parameter) -> const void* { return parameter.state().get(); });
}
std::vector<std::pair<std::string, Buffer*>> named_buffers(Module& root) { return collect(root, &Walk::on_buffer); }
std::vector<std::pair<std::string, Module*>> named_modules(Module& root) { return collect(root, &Walk::on_module); }

std::int64_t count_parameters(Module& root) {
  std::int64_t count = 0;
  for (const auto& [name, parameter] : named_parameters(root)) count += parameter->value().numel();
  return count;
}

StateDict state_dict(Module& root) {
  StateDict state;
  for (auto& [name, tensor] : tensors_of(root)) state.put(name, tensor);
  return state;
}

void check_state_dict(Module& root, const StateDict& state) { checked_differences(tensors_of(root), state, true); }

LoadResult load_state_dict(Module& root, const StateDict& state, const LoadOptions& options) {
  std::map<std::string, Tensor> tensors = tensors_of(root);
  Differences found = checked_differences(tensors, state, options.strict);
  for (auto& [name, tensor] : tensors)
    if (state.contains(name)) tensor.copy_from(state.tensor(name).to(tensor.device()));
  for (const auto& [name, buffer] : named_buffers(root)) buffer->rollback();
  return {std::move(found.missing), std::move(found.unexpected)};
}

}  // namespace binade::nn
