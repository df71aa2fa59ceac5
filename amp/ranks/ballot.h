#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "binade/amp/verdict.h"
#include "binade/core/communicator.h"
#include "binade/core/step_context.h"

namespace binade::amp {

/// The values that must be the same on all ranks at a step, as numbers. If they differ, a rank computes something else
/// and would commit other bits.
struct CommonState {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t attempt = 0;        ///< attempts at the step so far
  std::uint64_t phase = 0;          ///< number of the phase within the step
  std::uint64_t micro_batches = 0;  ///< number of micro-batches of the whole step
  std::uint64_t leaves = 0;
  std::uint64_t loss_scale = 0;     ///< bits of the double
  std::uint64_t learning_rate = 0;  ///< bits of the double
  std::uint64_t policy = 0;         ///< hash of the policy as text
  std::uint64_t data = 0;           ///< hash of the micro-batches that run, their origins and the left-out samples
  std::uint64_t parameters = 0;     ///< hash of the numbers of elements
  std::uint64_t last_update = 0;    ///< bits of the gradient norm of the last committed step

  bool operator==(const CommonState&) const = default;
};

/// The message of a rank to the others about its micro-batches, sent before gradients are exchanged.
struct Ballot {
  CommonState common{};
  std::string error{};  ///< text of an exception that ended the rank's part of the step; empty: none

  struct Loss {
    std::int64_t micro_batch = 0;
    double value = 0;  ///< mean over the micro-batch, unscaled
  };
  std::vector<Loss> losses{};  ///< losses of the micro-batches that were computed, in order

  /// The first micro-batch of the rank that cannot be committed.
  std::int32_t bad_micro_batch = -1;  ///< -1: none
  AbortCause cause = AbortCause::kNone;
  std::string refused{};     ///< Attempt::refused
  std::string bad_buffer{};  ///< Attempt::bad_buffer

  OpNumbers next_op{};  ///< numbers that the next op would get
  double seconds = 0;   ///< own computing time per micro-batch, for RankPace; no result depends on it
  /// For each node of the gradient tree that the rank has computed: one flag per parameter (GradientTree::present())
  std::vector<std::vector<std::uint8_t>> present{};
  std::vector<std::byte> statistics{};  ///< encode_statistics() of this rank (amp/ranks/statistics.h)

  Bytes encoded() const;
  static Ballot decoded(std::span<const std::byte> bytes);
};

/// The verdict that follows from the ballots of all ranks. It is the same on every rank, because all ranks call
/// verdict_of() with the same ballots.
struct Vote {
  AbortCause cause = AbortCause::kNone;
  int bad_micro_batch = -1;
  int bad_rank = -1;  ///< the rank that computed the bad micro-batch
  std::string refused{};
  std::string bad_buffer{};
  double loss = 0;  ///< mean over micro-batches up to the bad one; the loss of the bad one if it is not finite
  OpNumbers next_op{};
};

/// Returns the verdict on the first bad micro-batch, at which a single rank would have stopped. `ballots`: in the order
/// of ranks. Throws RankError with the first difference if the CommonState of ranks differs, or with the text of a
/// rank's exception.
Vote verdict_of(std::span<const Ballot> ballots);

}  // namespace binade::amp
