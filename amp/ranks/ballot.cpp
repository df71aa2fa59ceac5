#include "binade/amp/ranks/ballot.h"

#include "binade/amp/ranks/bytes.h"

namespace binade::amp {
namespace {

struct Field {
  const char* name;
  std::uint64_t CommonState::*value;
};
constexpr Field kFields[] = {{"seed", &CommonState::seed},
                             {"step", &CommonState::step},
                             {"attempt", &CommonState::attempt},
                             {"phase", &CommonState::phase},
                             {"number of micro-batches", &CommonState::micro_batches},
                             {"number of leaves", &CommonState::leaves},
                             {"loss scale", &CommonState::loss_scale},
                             {"learning rate", &CommonState::learning_rate},
                             {"precision policy", &CommonState::policy},
                             {"data", &CommonState::data},
                             {"parameters", &CommonState::parameters},
                             {"gradient norm of the last step", &CommonState::last_update}};
static_assert(sizeof(CommonState) == std::size(kFields) * sizeof(std::uint64_t), "every member needs a name");

void check_common(std::span<const Ballot> ballots) {
  for (std::size_t rank = 1; rank < ballots.size(); ++rank)
    for (const Field& field : kFields)
      check<RankError>(ballots[rank].common.*field.value == ballots[0].common.*field.value,
                       "ranks: rank {} and rank 0 disagree about the {} in step {} ({:#x} and {:#x}); nothing is "
                       "committed. Start all ranks with the same program, settings and data",
                       rank, field.name, ballots[0].common.step, ballots[rank].common.*field.value,
                       ballots[0].common.*field.value);
}

}  // namespace

Bytes Ballot::encoded() const {
  ByteWriter out;
  out.put(common)
      .put(error)
      .put(losses)
      .put(bad_micro_batch)
      .put(cause)
      .put(refused)
      .put(bad_buffer)
      .put(next_op.tape_index);
  out.put(next_op.call_index);
  out.put(seconds);
  return out.put(present).put(statistics).bytes();
}

Ballot Ballot::decoded(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Ballot ballot;
  ballot.common = in.get<CommonState>();
  ballot.error = in.get<std::string>();
  ballot.losses = in.get<std::vector<Loss>>();
  ballot.bad_micro_batch = in.get<std::int32_t>();
  ballot.cause = in.get<AbortCause>();
  ballot.refused = in.get<std::string>();
  ballot.bad_buffer = in.get<std::string>();
  ballot.next_op.tape_index = in.get<std::int64_t>();
  ballot.next_op.call_index = in.get<std::int64_t>();
  ballot.seconds = in.get<double>();
  ballot.present = in.get<std::vector<std::vector<std::uint8_t>>>();
  ballot.statistics = in.get<std::vector<std::byte>>();
  return ballot;
}

Vote verdict_of(std::span<const Ballot> ballots) {
  for (std::size_t rank = 0; rank < ballots.size(); ++rank)
    check<RankError>(ballots[rank].error.empty(), "ranks: rank {} ended step {}: {}", rank, ballots[rank].common.step,
                     ballots[rank].error);
  check_common(ballots);
  Vote vote;
  double sum = 0;
  int done = 0;
  for (std::size_t rank = 0; rank < ballots.size(); ++rank) {
    const Ballot& ballot = ballots[rank];
    vote.next_op = later(vote.next_op, ballot.next_op);
    if (vote.cause != AbortCause::kNone) continue;
    for (const Ballot::Loss& loss : ballot.losses) {
      sum += loss.value;
      ++done;
      vote.loss = loss.value;
    }
    if (ballot.bad_micro_batch < 0) continue;
    vote.cause = ballot.cause;
    vote.bad_micro_batch = ballot.bad_micro_batch;
    vote.bad_rank = static_cast<int>(rank);
    vote.refused = ballot.refused;
    vote.bad_buffer = ballot.bad_buffer;
  }
  // If a micro-batch has a non-finite loss, reports that loss instead of the mean over micro-batches.
  if (vote.cause != AbortCause::kLoss && vote.cause != AbortCause::kBadData) vote.loss = sum / done;
  return vote;
}

}  // namespace binade::amp
