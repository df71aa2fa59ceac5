#pragma once

#include "binade/autograd/functions/activations.h"
#include "binade/autograd/functions/elementwise.h"
#include "binade/core/error.h"
#include "binade/nn/module.h"

namespace binade::nn {

/// Options of all dropout layers.
struct DropoutOptions {
  double p = 0.5;  ///< probability of an element, or of a channel, to be dropped
};

/// Base of layers that apply a function of x and p in training, and return x in evaluation.
template <Variable (*kFunction)(const Variable&, double)>
class DropoutModule : public OptionsModule<DropoutOptions> {
 public:
  Variable forward(const Variable& x) override {
    check<ArgumentError>(x.defined(), "{}: x is undefined", where(kind()));
    return training() && options().p > 0 ? kFunction(x, options().p) : x;
  }

 protected:
  DropoutModule(const char* kind, const DropoutOptions& o) : OptionsModule(o) {
    check<ArgumentError>(o.p >= 0 && o.p < 1, "{}: wanted p in [0, 1), got {}", kind, o.p);
  }
};

/// In training, sets each element of x to 0 with probability p, and otherwise to x / (1 - p). In evaluation, returns x.
struct Dropout : DropoutModule<dropout> {
  explicit Dropout(const DropoutOptions& options = {}) : DropoutModule("Dropout", options) {}
  std::string kind() const override { return "Dropout"; }
};

/// In training, drop whole channels of x (N, …, C): sequences, images or volumes; see dropout2d().
struct Dropout1d : DropoutModule<dropout2d> {
  explicit Dropout1d(const DropoutOptions& options = {}) : DropoutModule("Dropout1d", options) {}
  std::string kind() const override { return "Dropout1d"; }
};
struct Dropout3d : DropoutModule<dropout2d> {
  explicit Dropout3d(const DropoutOptions& options = {}) : DropoutModule("Dropout3d", options) {}
  std::string kind() const override { return "Dropout3d"; }
};
struct Dropout2d : DropoutModule<dropout2d> {
  explicit Dropout2d(const DropoutOptions& options = {}) : DropoutModule("Dropout2d", options) {}
  std::string kind() const override { return "Dropout2d"; }
};

/// In training, drops elements so that mean 0 and variance 1 remain, for networks with Selu: see alpha_dropout().
struct AlphaDropout : DropoutModule<alpha_dropout> {
  explicit AlphaDropout(const DropoutOptions& options = {}) : DropoutModule("AlphaDropout", options) {}
  std::string kind() const override { return "AlphaDropout"; }
};
/// The same for whole channels of x (N, …, C): see feature_alpha_dropout().
struct FeatureAlphaDropout : DropoutModule<feature_alpha_dropout> {
  explicit FeatureAlphaDropout(const DropoutOptions& options = {}) : DropoutModule("FeatureAlphaDropout", options) {}
  std::string kind() const override { return "FeatureAlphaDropout"; }
};

}  // namespace binade::nn
