#pragma once

#include <cmath>

#include "binade/autograd/functions/linalg.h"
#include "binade/core/error.h"
#include "binade/nn/init.h"

namespace binade::nn {

/// Options of Bilinear.
struct BilinearOptions {
  std::int64_t in1 = 0, in2 = 0, out = 0;  ///< values per row of a, of b and of y
  bool bias = true;
};

/// `layer(a, b)` computes y_o = the sum of a_i weight_oij b_j, plus bias_o, for a (…, in1), b (…, in2), y (…, out).
/// weight (out, in1, in2) and bias (out) are initialized as in PyTorch, from U(-1 / sqrt(in1), 1 / sqrt(in1)).
class Bilinear : public WeightedModule {
 public:
  explicit Bilinear(const BilinearOptions& o) : options_(o) {
    check<ArgumentError>(o.in1 > 0 && o.in2 > 0 && o.out > 0,
                         "Bilinear: wanted in1 > 0, in2 > 0 and out > 0, got {}, {} and {}", o.in1, o.in2, o.out);
    const double bound = 1 / std::sqrt(static_cast<double>(o.in1));
    weight = Parameter(Tensor::empty({o.out, o.in1, o.in2}, DType::f32, Runtime::current_device()));
    init::uniform(weight, -bound, bound);
    if (!o.bias) return;
    bias = Parameter(Tensor::empty({o.out}, DType::f32, Runtime::current_device()));
    init::uniform(bias, -bound, bound);
  }
  std::string kind() const override { return "Bilinear"; }
  Variable operator()(const Variable& a, const Variable& b) {
    const ModuleScope scope(*this);
    return bilinear(a, b, weight, bias);
  }
  const BilinearOptions& options() const { return options_; }

 private:
  BilinearOptions options_;
};

}  // namespace binade::nn
