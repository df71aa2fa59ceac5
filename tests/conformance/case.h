#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "binade/autograd/variable.h"
#include "binade/core/ops/op.h"
#include "tests/tested_device.h"

namespace binade::conformance {

/// Values of a tensor in double, row-major, with their shape. References read and return arrays.
struct Array {
  Shape shape{};
  std::vector<double> values{};
  double operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
  double& operator[](std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
};

/// The result of a reference. If the op sums many terms, also the number of terms of each element and the sum of their
/// magnitudes, for the error bound (otherwise empty).
struct Expected {
  std::vector<double> values{};
  std::vector<double> terms{};
  std::vector<double> magnitude{};
  /// Elements that may also be NaN: an implementation may or may not multiply the zeros outside of an image by a
  /// non-finite weight. Empty: none.
  std::vector<bool> open{};
};

/// One op on one set of inputs. Every check of the suite runs on every case.
struct Case {
  const OpInfo* info{};          ///< the op's description, which states the error bound
  std::string name{};            ///< the shape class, "channel_slice": letters, digits, underscores
  std::vector<Tensor> inputs{};  ///< floating-point inputs are f64; each check rounds them to its dtype
  std::function<Variable(const std::vector<Variable>&)> run{};     ///< the user's function, one output
  std::function<Expected(const std::vector<Array>&)> reference{};  ///< in double, independent of the op's own code
  bool differentiable = true;  ///< false if an input is at a kink, where gradcheck cannot be used
  bool poison =
      true;  ///< true if the reference is right for NaN and infinities too; otherwise another test covers them
  /// Additional error bound in 16 bits for intermediate results that the contract rounds: this number of half ulps of
  /// the sum of magnitudes
  double half_roundings = 0;
  /// True if a NaN in any element of a floating-point input must reach the output. False for `where`, for example.
  bool nan_must_show = true;

  std::string full_name() const { return std::string(info->name) + "_" + name; }

  /// Returns true if the op reads input i in the dtype of a check: cast by the policy, or on a GPU as a 16-bit copy.
  /// The reference then gets the rounded values, so that this rounding needs no tolerance.
  bool is_read_in_halves(std::size_t i) const {
    const std::uint32_t on_device = tested_device() == Device::cpu() ? 0 : info->low_on_gpu;
    return i < 32 && ((info->policy_inputs | on_device) >> i & 1u) != 0;
  }
};

/// Returns values in [low, high], a function of tag and index; practically no two are equal.
Tensor random(const Shape& shape, std::uint64_t tag, double low = -2, double high = 2);
/// Returns the values of random() as the last channels of a wider tensor.
Tensor random_slice(const Shape& shape, std::uint64_t tag, double low = -2, double high = 2);
/// Returns integers in [0, n) as i64.
Tensor random_labels(const Shape& shape, std::uint64_t tag, std::int64_t n);

/// A kind of shape for elementwise ops, such as an odd size or a channel slice; there are at least 12.
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
/// Returns `x` converted to `dtype`. A channel slice stays one; integer tensors are unchanged.
Tensor in_dtype(const Tensor& x, DType dtype);

/// Returns a variable with a copy of `x` on the device under test. A channel slice stays one.
Variable variable_of(const Tensor& x, bool with_gradient);

/// Returns all cases: those of the ops in core/ops/lists.h, and those of the functions listed in registry.cpp.
const std::vector<Case>& all_cases();

}  // namespace binade::conformance
