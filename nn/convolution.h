#pragma once

#include <string_view>

#include "binade/core/error.h"
#include "binade/core/ops/extent2.h"
#include "binade/nn/linear.h"

namespace binade::nn {

/// Base of Conv2d and ConvTranspose2d, which initializes weight and bias.
class Convolution : public WeightedModule {
 protected:
  /// Checks the options and initializes weight (`first`, R, S, `last` / groups) and bias. `first` and `last` are o.out
  /// and o.in in a convolution, o.in and o.out in a transposed one.
  template <class Options>
  Convolution(std::string_view kind, const Options& o, std::int64_t first, std::int64_t last) {
    check<ArgumentError>(o.in > 0 && o.out > 0 && o.groups > 0 && o.in % o.groups == 0 && o.out % o.groups == 0,
                         "{}: wanted in and out > 0 in equal groups, got {} and {} in {} groups", kind, o.in, o.out,
                         o.groups);
    check<ArgumentError>(o.kernel.y > 0 && o.kernel.x > 0, "{}: wanted a kernel of 1 or more, got {}", kind, o.kernel);
    weight = Parameter(
        Tensor::empty({first, o.kernel.y, o.kernel.x, last / o.groups}, DType::f32, Runtime::current_device()));
    if (o.bias) bias = Parameter(Tensor::empty({o.out}, DType::f32, Runtime::current_device()));
    init_as_linear(weight, bias);
  }
};

}  // namespace binade::nn
