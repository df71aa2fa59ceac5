#pragma once

#include "binade/core/error.h"
#include "binade/nn/dropout.h"
#include "binade/nn/linear.h"

namespace binade::nn {

/// Options of Mlp.
struct MlpOptions {
  std::int64_t dim = 0;     ///< size of the input and of the output
  std::int64_t hidden = 0;  ///< size of the hidden layer; 0: 4 dim
  Activation activation = Activation::kGelu;
  bool bias = true;
  double dropout = 0;  ///< probability of dropout after the layer `down`
};

/// A network with one hidden layer: maps x (…, dim) to down(activation(up(x))) (…, dim).
class Mlp : public Module {
 public:
  explicit Mlp(const MlpOptions& o)
      : up({.in = o.dim, .out = hidden(o), .bias = o.bias, .activation = o.activation}),
        down({.in = hidden(o), .out = o.dim, .bias = o.bias}),
        dropout_({.p = o.dropout}) {}
  void visit(Visitor& v) override {
    v("up", up);
    v("down", down);
    v("dropout", dropout_);
  }
  std::string kind() const override { return "Mlp"; }
  Variable forward(const Variable& x) override { return dropout_(down(up(x))); }

  Linear up, down;

 private:
  static std::int64_t hidden(const MlpOptions& o) {
    check<ArgumentError>(o.dim > 0 && o.dim < std::int64_t{1} << 60, "Mlp: wanted dim from 1 to 2^60, got {}", o.dim);
    return o.hidden > 0 ? o.hidden : 4 * o.dim;
  }

  Dropout dropout_;
};

}  // namespace binade::nn
