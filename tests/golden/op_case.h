#pragma once

#include <functional>
#include <map>
#include <string>

#include "binade/autograd/variable.h"
#include "tests/golden/golden_file.h"

namespace binade::golden {

/// The inputs of a case by name ("x", "w"), as leaves. An input that the case lacks is undefined, like an omitted
/// optional input.
class Inputs {
 public:
  Inputs(const Case& golden, DType dtype);  ///< floating inputs in `dtype`; those with an expected gradient require one
  Variable operator[](const std::string& name) const;
  const std::map<std::string, Variable>& all() const { return variables_; }

 private:
  std::map<std::string, Variable> variables_;
};

using Outputs = std::map<std::string, Variable>;
using Function = std::function<Outputs(const Case&, const Inputs&)>;

/// Runs every case of data/ops.FAMILY.txt forward and backward, in f32 and in f64, and compares outputs and gradients
/// with the exact values. A failure names case, role and element. Also fails if a case has no function, or a function
/// no case.
///
/// Tolerance in f32: by default rtol 1e-5 and share 1e-6, because sums here have at most a few hundred terms with an
/// error of 2^-24 each. In f64: by default the ten digits of the file.
void check_family(const std::string& family, const std::map<std::string, Function>& functions,
                  const Tolerance& f64 = {.rtol = 2e-9, .share = 1e-11},
                  const Tolerance& f32 = {.rtol = 1e-5, .share = 1e-6});

}  // namespace binade::golden
