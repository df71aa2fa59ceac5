#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "binade/core/error.h"
#include "binade/nn/linear.h"

namespace binade::nn {

/// Base of convolutions and transposed convolutions of sequences, images and volumes, which initializes weight and
/// bias.
class Convolution : public WeightedModule {
 protected:
  /// Checks the options and initializes weight (`first`, …kernel, `last` / groups) and bias. `first` and `last` are
  /// o.out and o.in in a convolution, o.in and o.out in a transposed one.
  template <class Options>
  Convolution(std::string_view kind, const Options& o, std::int64_t first, std::int64_t last,
              std::initializer_list<std::int64_t> kernel) {
    check<ArgumentError>(o.in > 0 && o.out > 0 && o.groups > 0 && o.in % o.groups == 0 && o.out % o.groups == 0,
                         "{}: wanted in and out > 0 in equal groups, got {} and {} in {} groups", kind, o.in, o.out,
                         o.groups);
    check<ArgumentError>(std::min(kernel) > 0, "{}: wanted a kernel of 1 or more, got {}", kind, o.kernel);
    std::vector<std::int64_t> extents(kernel);
    extents.insert(extents.begin(), first);
    extents.push_back(last / o.groups);
    weight = Parameter(Tensor::empty(Shape(extents), DType::f32, Runtime::current_device()));
    if (o.bias) bias = Parameter(Tensor::empty({o.out}, DType::f32, Runtime::current_device()));
    init_as_linear(weight, bias);
  }
};

}  // namespace binade::nn
