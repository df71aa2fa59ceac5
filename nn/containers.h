#pragma once

#include <concepts>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "binade/nn/module.h"

namespace binade::nn {

namespace detail {
/// Throws ArgumentError unless `name` can be the name of a new member: not empty, without dots, not in use.
void check_member_name(const std::string& kind, const std::string& name, bool in_use);
}  // namespace detail

/// A list of modules of any types, whose names are "0", "1", …. Sequential (sequential.h) also calls them in order.
///
///   nn::ModuleList<nn::Module> parts;
///   parts.append(nn::Linear({.in = 4, .out = 8}));
///   parts[0](x);
template <>
class ModuleList<Module> {
 public:
  /// Appends a module and returns it.
  template <std::derived_from<Module> M>
  M& append(M module) {
    auto owned = std::make_unique<M>(std::move(module));
    M& added = *owned;
    items_.push_back(std::move(owned));
    return added;
  }
  std::size_t size() const { return items_.size(); }
  Module& operator[](std::size_t i) { return *items_[i]; }
  /// Visits the modules as NAME.0, NAME.1, …. The owner calls it in its visit(): `parts.visit("parts", visitor)`.
  void visit(const std::string& name, Visitor& visitor) {
    for (std::size_t i = 0; i < items_.size(); ++i) visitor(name + "." + std::to_string(i), *items_[i]);
  }

 private:
  std::vector<std::unique_ptr<Module>> items_;
};

/// Modules of any types with names, which they also have in checkpoints. They keep the order in which they were added.
/// It has no forward: the owner calls the modules, `heads["depth"](x)`.
class ModuleDict : public Module {
 public:
  /// Adds a module and returns it. Throws ArgumentError if the name is empty, contains a dot or is in use.
  template <std::derived_from<Module> M>
  M& add(const std::string& name, M module) {
    detail::check_member_name(kind(), name, contains(name));
    auto owned = std::make_unique<M>(std::move(module));
    M& added = *owned;
    items_.emplace_back(name, std::move(owned));
    return added;
  }
  /// Returns the module of this name. Throws ArgumentError, which lists all names, if there is none.
  Module& operator[](const std::string& name);
  using Module::operator();
  bool contains(const std::string& name) const;
  std::size_t size() const { return items_.size(); }
  std::vector<std::string> names() const;

  void visit(Visitor& v) override {
    for (auto& [name, module] : items_) v(name, *module);
  }
  std::string kind() const override { return "ModuleDict"; }

 private:
  std::vector<std::pair<std::string, std::unique_ptr<Module>>> items_;
};

/// Parameters whose names are "0", "1", ….
class ParameterList : public Module {
 public:
  /// Appends a parameter with this initial value and returns it.
  Parameter& append(const Tensor& value) { return items_.emplace_back(value); }
  std::size_t size() const { return items_.size(); }
  Parameter& operator[](std::size_t i) { return items_[i]; }
  auto begin() { return items_.begin(); }
  auto end() { return items_.end(); }

  void visit(Visitor& v) override {
    for (std::size_t i = 0; i < items_.size(); ++i) v(std::to_string(i), items_[i]);
  }
  std::string kind() const override { return "ParameterList"; }

 private:
  std::deque<Parameter> items_;  // references stay valid when more are appended
};

/// Parameters with names, in the order in which they were added.
class ParameterDict : public Module {
 public:
  /// Adds a parameter with this initial value and returns it. Throws ArgumentError if the name is empty, contains a dot
  /// or is in use.
  Parameter& add(const std::string& name, const Tensor& value);
  /// Returns the parameter of this name. Throws ArgumentError, which lists all names, if there is none.
  Parameter& operator[](const std::string& name);
  bool contains(const std::string& name) const;
  std::size_t size() const { return items_.size(); }
  std::vector<std::string> names() const;

  void visit(Visitor& v) override {
    for (auto& [name, parameter] : items_) v(name, parameter);
  }
  std::string kind() const override { return "ParameterDict"; }

 private:
  std::deque<std::pair<std::string, Parameter>> items_;
};

}  // namespace binade::nn
