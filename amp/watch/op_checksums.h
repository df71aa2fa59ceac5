#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "binade/amp/checksum_mismatch.h"
#include "binade/autograd/observer.h"
#include "binade/core/tensor.h"

namespace binade::amp {

/// Observes a run of a step and computes a checksum of the results of each op of one micro-batch: of the values that
/// its forward stored, and of the gradients that its backward stored. Each result is read once more, on its device; the
/// host waits only in first_difference().
class OpChecksums final : public TapeObserver {
 public:
  /// Observes all calls of the micro-batch, or as many as `earlier` has, if that is given.
  OpChecksums(Device device, int micro_batch, const OpChecksums* earlier = nullptr);

  void after_forward(const OpCall& call, std::span<const Tensor> read, Tensors& outputs,
                     const Observation& seen) override;
  void after_backward(const OpCall& call, std::span<const Tensor> gy, std::span<const Tensor> gx,
                      const Observation& seen) override;

  /// Compares the calls of `earlier`, in order, with those of this object, which must not have more. Returns
  /// std::nullopt if all bits are equal.
  std::optional<ChecksumMismatch> first_difference(const OpChecksums& earlier) const;

 private:
  struct Call {
    std::string module{};
    const OpInfo* info = nullptr;
    Direction direction = Direction::kForward;
    std::int64_t tape_index = 0;

    friend bool operator==(const Call&, const Call&) = default;
  };
  /// The number of checksums. Calls beyond it share the last checksum: a difference in one of them is found too, and
  /// the report names the first of them.
  static constexpr std::int64_t kSums = 1 << 16;

  void add(const OpCall& call, Direction direction, std::span<const Tensor> results);
  ChecksumMismatch mismatch(const Call& call, bool other_ops) const;

  int micro_batch_;
  std::size_t most_calls_;  // further ones are ignored: they would change the last checksum
  std::vector<Call> calls_;
  Tensor sums_;  // i64, one per call
};

}  // namespace binade::amp
