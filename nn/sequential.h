#pragma once

#include <concepts>
#include <memory>

#include "binade/nn/module.h"

namespace binade::nn {

/// Modules that run one after the other, each on the result of the previous one. Their names are "0", "1", ….
///
///   nn::Sequential net(nn::Linear({.in = 784, .out = 64}), nn::Relu(), nn::Linear({.in = 64, .out = 10}));
class Sequential : public Module {
 public:
  Sequential() = default;
  template <std::derived_from<Module> First, std::derived_from<Module>... Rest>
  requires(sizeof...(Rest) > 0 || !std::same_as<First, Sequential>) explicit Sequential(First first, Rest... rest) {
    append(std::move(first));
    (append(std::move(rest)), ...);
  }

  /// Appends a module and returns it.
  template <std::derived_from<Module> M>
  M& append(M module) {
    auto owned = std::make_unique<M>(std::move(module));
    M& added = *owned;
    items_.push_back(std::move(owned));
    return added;
  }

  void visit(Visitor& v) override {
    for (std::size_t i = 0; i < items_.size(); ++i) v(std::to_string(i), *items_[i]);
  }
  std::string kind() const override { return "Sequential"; }
  Variable forward(const Variable& x) override {
    Variable y = x;
    for (const auto& item : items_) y = (*item)(y);
    return y;
  }

  std::size_t size() const { return items_.size(); }
  Module& operator[](std::size_t i) { return *items_[i]; }
  using Module::operator();

 private:
  std::vector<std::unique_ptr<Module>> items_;
};

}  // namespace binade::nn
