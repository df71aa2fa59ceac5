#pragma once

#include <functional>
#include <string>
#include <vector>

#include "binade/autograd/variable.h"

namespace binade::conformance {

/// A function that is composed of ops, which layer_functions_test.cpp tests.
struct Composed {
  std::string name{};
  std::function<Variable(const std::vector<Variable>&)> run{};
  std::vector<Shape> shapes{};
  bool keeps_dtype = true;  ///< false: the result of 16-bit inputs is f32
};

/// The functions of composites.h, statistics.h, differences.h, pieces.h and linalg.h that have gradients.
std::vector<Composed> named_functions();

}  // namespace binade::conformance
