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

/// What ranks must have in common at a step, as numbers. A difference means that a rank went another way, and that it
/// would commit other bits.
struct CommonState {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t attempt = 0;        ///< attempts at the step so far
  std::uint64_t phase = 0;          ///< number of the phase within the step
  std::uint64_t micro_batches = 0;  ///< of the whole step
  std::uint64_t leaves = 0;
  std::uint64_t loss_scale = 0;     ///< bits
  std::uint64_t learning_rate = 0;  ///< bits
  std::uint64_t policy = 0;         ///< hash
  std::uint64_t data = 0;           ///< hash of the micro-batches' origins and of the left-out samples
  std::uint64_t parameters = 0;     ///< number and sizes
  std::uint64_t last_update = 0;    ///< bits of the gradient norm of the last committed step

  bool operator==(const CommonState&) const = default;
};

/// What a rank tells the others about its micro-batches, before gradients are exchanged.
struct Ballot {
  CommonState common{};
  std::string error{};  ///< text of an exception that ended the rank's part of the step; empty: none

  struct Loss {
    std::int64_t micro_batch = 0;
    double value = 0;  ///< mean over the micro-batch, unscaled
  };
  std::vector<Loss> losses{};  ///< of the micro-batches that were computed, in order

  /// The first micro-batch of the rank that cannot be committed.
  std::int32_t bad_micro_batch = -1;  ///< -1: none
  AbortCause cause = AbortCause::kNone;
  std::string refused{};     ///< Attempt::refused
  std::string bad_buffer{};  ///< Attempt::bad_buffer

  OpNumbers next_op{};  ///< after the last op
  double seconds = 0;   ///< since the exchange before, per micro-batch; decides nothing
  /// One list for each node of the tree that the rank has computed (nodes_of()): which parameters have a gradient.
  std::vector<std::vector<std::uint8_t>> present{};
  std::vector<std::byte> statistics{};  ///< of batch norms (amp/ranks/statistics.h)

  Bytes encoded() const;
  static Ballot decoded(std::span<const std::byte> bytes);
};

/// What all ranks conclude from the ballots: the same on every rank, because they all call the same function with the
/// same arguments.
struct Vote {
  AbortCause cause = AbortCause::kNone;
  int bad_micro_batch = -1;
  int bad_rank = -1;  ///< the rank that computed it
  std::string refused{};
  std::string bad_buffer{};
  double loss = 0;  ///< mean over micro-batches, up to the bad one; that of the bad one if it is not finite
  OpNumbers next_op{};
};

/// Returns the verdict of all ballots, in the order of ranks: that of the first bad micro-batch, which a single rank
/// would have met. Throws RankError with the ranks and the first difference if their states differ, or with the text of
/// a rank's exception.
Vote verdict_of(std::span<const Ballot> ballots);

}  // namespace binade::amp
