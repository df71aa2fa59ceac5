#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "binade/amp/watch/device_numbers.h"
#include "binade/autograd/observer.h"

namespace binade::amp {

/// The legal range of an operand with a pole, as far as the contract (OpInfo::numerics) has bounds; they are poles too.
struct Legal {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};
Legal legal_range(const OpInfo& info);

/// Operands in which the pole lies, of `count`: the divisor of a division, the predictions of a loss, all there are
/// else.
struct PoleOperands {
  std::size_t begin = 0, end = 0;
};
PoleOperands pole_operands(const OpInfo& info, std::size_t count);

/// How near the operands of an op come to its pole.
struct PoleDistance {
  DType dtype = DType::f32;  ///< of the operand
  /// Binades to where value or derivative may leave the range of floats: below 0 they may, infinite: not near at all.
  double binades = std::numeric_limits<double>::infinity();
  /// The nearer of both.
  void merge(const PoleDistance& other) {
    if (other.binades < binades) *this = other;
  }
};
/// Reads the operands of an op with a pole; NaN among them is ignored. A division by the number 0 is at its pole.
PoleDistance pole_distance(const OpCall& call, std::span<const Tensor> operands);

/// What can be said without reading the operands.
PoleDistance pole_distance_by_number(const OpCall& call);
/// Of an operand whose nearest value is that far from the pole.
PoleDistance pole_distance_of(double nearest, DType dtype);
/// Where a device leaves the distance of an operand's nearest value.
struct NearestThere {
  std::int64_t number = 0;  ///< of DeviceNumbers
  DType dtype = DType::f32;
};
/// As pole_distance() on a device with look kernels (core/look_kernels.h), which does not wait: one for each operand
/// that it would read.
std::vector<NearestThere> look_at_pole(const OpCall& call, std::span<const Tensor> operands, DeviceNumbers& numbers);

}  // namespace binade::amp
