#pragma once

#include <set>
#include <string>

#include "binade/autograd/observer.h"
#include "binade/core/precision.h"
#include "binade/nn/module.h"

namespace binade::amp {

/// Collects the names that a precision override may match: the paths of a model's modules, and the ops that run while
/// this object observes, also those inside recomputed segments and those that no gradient passes through.
class OverrideNames final : public TapeObserver {
 public:
  explicit OverrideNames(nn::Module& model);
  void before_forward(const OpCall& call, std::span<const Variable> inputs, Tensors& read) override;
  /// Throws ArgumentError for an override that matches none of the names (check_overrides() in amp/policy.h).
  void check(const PrecisionPolicy& policy) const;

 private:
  std::set<std::string> names_;
};

}  // namespace binade::amp
