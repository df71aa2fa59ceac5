#pragma once

#include <functional>
#include <map>
#include <string>

#include "binade/autograd/variable.h"
#include "tests/golden/golden_file.h"

namespace binade::golden {

/// The inputs of a case by name ("x", "w"), as leaves; one that the case lacks is undefined, as optional inputs are.
class Inputs {
 public:
  Inputs(const Case& golden, DType dtype);  ///< floating inputs in `dtype`, those with an expected gradient want one
  Variable operator[](const std::string& name) const;
  const std::map<std::string, Variable>& all() const { return variables_; }

 private:
  std::map<std::string, Variable> variables_;
};

using Outputs = std::map<std::string, Variable>;
using Function = std::function<Outputs(const Case&, const Inputs&)>;

/// Runs every case of data/ops.FAMILY.txt forward and backward, in f32 and in f64, and compares outputs and gradients
/// with the exact values; a failure names case, role and element. A case without a function and a function without a
/// case fail.
///
/// f32: rtol 1e-5 and 1e-6 of the largest element: sums here have at most some hundred terms of 2^-24 each, and values
/// that come out of cancellation are judged by what cancelled. f64: the ten digits of the file, or as told.
void check_family(const std::string& family, const std::map<std::string, Function>& functions,
                  const Tolerance& f64 = {.rtol = 2e-9, .share = 1e-11});

}  // namespace binade::golden
