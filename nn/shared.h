#pragma once

#include <concepts>
#include <memory>
#include <utility>

#include "binade/nn/module.h"

namespace binade::nn {

/// A module that several parents hold: a copy of Shared refers to the same module.
///
///   nn::Shared layer(nn::Linear({.in = 8, .out = 8}));
///   nn::Sequential net(layer, nn::Relu(), layer);  // one weight, used twice
///
/// Its parts are listed, saved and updated once, under the first of their names ("0.weight"), and its ops have the
/// first of its paths. Training mode and freezing reach it through every parent. To share a member without Shared, keep
/// a pointer or reference to it and name it in visit() too; then the owner must outlive the other parent and must not
/// be moved. To share single parameters, assign them: `head.weight = tokens.weight`.
template <std::derived_from<Module> M>
class Shared : public Module {
 public:
  explicit Shared(M module) : module_(std::make_shared<M>(std::move(module))) {}
  /// Refers to the module of `other`.
  Shared(const Shared& other) : Module(), module_(other.module_) {}
  Shared(Shared&&) = default;
  Shared& operator=(Shared&&) = default;

  void visit(Visitor& v) override { v("", *module_); }
  std::string kind() const override { return "Shared"; }
  Variable forward(const Variable& x) override { return (*module_)(x); }

  M& operator*() const { return *module_; }
  M* operator->() const { return module_.get(); }

 private:
  std::shared_ptr<M> module_;
};

}  // namespace binade::nn
