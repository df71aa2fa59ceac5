#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "binade/amp/watch/probe_buffer.h"
#include "binade/autograd/observer.h"

namespace binade::amp {

/// The range that an op's contract (OpInfo::numerics) states for a singular operand. A bound that the contract does not
/// state is infinite. A finite bound is treated as a singularity too.
struct LegalRange {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
};
LegalRange legal_range(const OpInfo& info);

/// Returns the singularities that the op states for its first `count` inputs. Leaves out a singularity at the upper end
/// of the legal range if the same input has another one: every distance already takes the upper end of LegalRange into
/// account.
std::vector<Singularity> singularities_in(const OpInfo& info, std::size_t count);

/// Distance of an op's operands from the op's singularities.
struct SingularityDistance {
  DType dtype = DType::f32;  ///< dtype of the operand
  /// Number of binades by which the distance may shrink until the value or the derivative may exceed the range of
  /// floats; negative if it may already, infinite if no operand is near.
  double binades = std::numeric_limits<double>::infinity();
  /// Keeps the smaller distance.
  void merge(const SingularityDistance& other) {
    if (other.binades < binades) *this = other;
  }
};
/// Reads the singular operands, ignoring NaN, and returns their smallest distance; -infinity for a division by a
/// constant 0.
SingularityDistance singularity_distance(const OpCall& call, std::span<const Tensor> operands);

/// Returns the distance that the call's parameters alone imply: -infinity for a division by a constant 0, otherwise
/// infinity.
SingularityDistance singularity_distance_of_params(const OpCall& call);
/// Converts to binades: `nearest` is the difference between the singularity and the nearest element of an operand.
SingularityDistance singularity_distance_of(double nearest, DType dtype);
/// The place in a ProbeBuffer of the distance between an operand's nearest element and the singularity.
struct NearestOnDevice {
  std::int64_t index = 0;
  DType dtype = DType::f32;
};
/// Queues singularity_distance() on a device with probe kernels (core/kernels/probe.h), without synchronizing: one
/// result for each operand that it reads.
std::vector<NearestOnDevice> probe_singularity(const OpCall& call, std::span<const Tensor> operands,
                                               ProbeBuffer& buffer);

}  // namespace binade::amp
