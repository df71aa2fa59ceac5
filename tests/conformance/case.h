#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/ops/op.h"
#include "tests/tested_device.h"

namespace binade::conformance {

/// Values of a tensor in double, row-major, with their shape: what references read and write.
struct Array {
  Shape shape{};
  std::vector<double> values{};
  double operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
  double& operator[](std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
};

/// What a reference gives: the result, and for ops that add up many terms the bound's second part for each element: how
/// many terms, and the sum of their magnitudes (empty where there are none).
struct Expected {
  std::vector<double> values{};
  std::vector<double> terms{};
  std::vector<double> magnitude{};
  /// Elements that may as well be NaN: a zero outside of an image may or may not meet a filter's non-finite weight.
  /// Empty: none.
  std::vector<bool> open{};
};

/// One op on one set of inputs. Every check of the suite runs on every case.
struct Case {
  const OpInfo* info{};          ///< the op's contract: its bounds hold
  std::string name{};            ///< the shape class, "channel_slice": letters, digits, underscores
  std::vector<Tensor> inputs{};  ///< floating ones in f64; each check rounds them to its dtype
  std::function<Variable(const std::vector<Variable>&)> run{};     ///< the user's function, one output
  std::function<Expected(const std::vector<Array>&)> reference{};  ///< in double, independent of the op's own code
  bool differentiable = true;  ///< gradcheck applies (not where inputs sit on a kink)
  bool poison = true;  ///< the reference also says what NaN and infinities give (not: its test stands elsewhere)
  /// Intermediates that the contract rounds to a half on the way, each of the given magnitude
  double half_roundings = 0;
  /// A NaN in any element of any floating input reaches the output (not: a branch not taken)
  bool nan_must_show = true;

  std::string full_name() const { return std::string(info->name) + "_" + name; }

  /// Whether input i is read in the dtype of a check: cast by the policy, or on a GPU a copy in its 16 bits. References
  /// are then given what is read, so that its rounding needs no tolerance.
  bool is_read_in_halves(std::size_t i) const {
    const std::uint32_t on_device = tested_device() == Device::cpu() ? 0 : info->low_on_gpu;
    return i < 32 && ((info->policy_inputs | on_device) >> i & 1u) != 0;
  }
};

/// Deterministic values in [low, high], different for every tag; no two alike in practice.
Tensor random(const Shape& shape, std::uint64_t tag, double low = -2, double high = 2);
/// The same as the last channels of a wider tensor.
Tensor random_slice(const Shape& shape, std::uint64_t tag, double low = -2, double high = 2);
/// Whole numbers in [0, n) as i64.
Tensor random_labels(const Shape& shape, std::uint64_t tag, std::int64_t n);

/// A shape as the elementwise suites meet it. At least 12 classes.
struct ShapeClass {
  const char* name{};
  Shape shape{};
  bool slice = false;
};
const std::vector<ShapeClass>& shape_classes();
inline Tensor random(const ShapeClass& c, std::uint64_t tag, double low = -2, double high = 2) {
  return c.slice ? random_slice(c.shape, tag, low, high) : random(c.shape, tag, low, high);
}

Array array_of(const Tensor& t);
/// `x` in `dtype`, a channel slice staying one; integer tensors as they are.
Tensor in_dtype(const Tensor& x, DType dtype);

/// A variable with `x` there, a channel slice staying one.
Variable variable_of(const Tensor& x, bool with_gradient);

/// Every case of every op: the lists of core/ops/lists.h, and the functions named in registry.cpp.
const std::vector<Case>& all_cases();

}  // namespace binade::conformance
