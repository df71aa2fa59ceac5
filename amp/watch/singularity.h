#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "binade/amp/watch/device_numbers.h"
#include "binade/autograd/observer.h"

namespace binade::amp {

/// The legal range of a singular op's operand, as far as its contract (OpInfo::numerics) has bounds; they are
/// singularities too.
struct Legal {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};
Legal legal_range(const OpInfo& info);

/// The stated singularities of inputs that are there, among `count` of them. One that is the upper end of the legal
/// range is left out if the same input has another: the end counts anyway.
std::vector<Singularity> singularities_in(const OpInfo& info, std::size_t count);

/// How near the operands of an op come to its singularities.
struct SingularityDistance {
  DType dtype = DType::f32;  ///< of the operand
  /// Binades to where value or derivative may leave the range of floats: below 0 they may, infinite: not near at all.
  double binades = std::numeric_limits<double>::infinity();
  /// The nearer of both.
  void merge(const SingularityDistance& other) {
    if (other.binades < binades) *this = other;
  }
};
/// Reads the operands that have a singularity; NaN among them is ignored. A division by the number 0 is at it.
SingularityDistance singularity_distance(const OpCall& call, std::span<const Tensor> operands);

/// What follows from the call's parameters, without reading the operands.
SingularityDistance singularity_distance_by_number(const OpCall& call);
/// Of an operand whose nearest value is that far from the singularity.
SingularityDistance singularity_distance_of(double nearest, DType dtype);
/// Where a device leaves the distance of an operand's nearest value.
struct NearestOnDevice {
  std::int64_t number = 0;  ///< of DeviceNumbers
  DType dtype = DType::f32;
};
/// singularity_distance() on a device with probe kernels (core/kernels/probe.h), without waiting for it: one for each
/// operand that it would read.
std::vector<NearestOnDevice> probe_singularity(const OpCall& call, std::span<const Tensor> operands,
                                               DeviceNumbers& numbers);

}  // namespace binade::amp
