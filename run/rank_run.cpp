#include "binade/run/rank_run.h"

#include <algorithm>
#include <iterator>

#include "binade/amp/ranks/bytes.h"
#include "binade/amp/ranks/state_bytes.h"
#include "binade/core/crc32c.h"
#include "binade/io/terminal/console.h"

namespace binade::amp {
namespace {

enum class Message : std::uint8_t {
  kBegun,     ///< the run begins
  kLoaded,    ///< the run continues from the state that follows
  kObserved,  ///< a validation loss follows
  kCompare,   ///< rank 0 asks for the checksums of the state
  kStop,      ///< rank 0 asks whether a signal requested a stop
  kGoesOn,    ///< a step follows
  kEnded,     ///< the run has ended; its RunEnd follows
};

constexpr const char* kBetweenSteps = "the message of rank 0 between two steps";
constexpr const char* kRecovery = "the search of rank 0 for a checkpoint";

void send(Communicator& ranks, const ByteWriter& message) { ranks.broadcast(message.bytes(), 0, kBetweenSteps); }

/// Returns the signal that the lowest signaled rank received, and all signaled ranks. All ranks call it together.
std::optional<StopRequest> stop_request_of_any(Communicator& ranks) {
  const std::vector<std::int32_t> mine = {io::StopSignals::signal_received()};
  const std::vector<Bytes> all = ranks.gather(bytes_of(mine), "the question for signals");
  StopRequest request;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto signal = ByteReader(all[static_cast<std::size_t>(rank)]).get<std::int32_t>();
    if (signal == 0) continue;
    if (request.signal == 0) request.signal = signal;
    request.ranks.push_back(rank);
  }
  return request.signal == 0 ? std::nullopt : std::optional(request);
}

/// Returns a CRC of each entry of the state, in the order of their names.
std::vector<std::uint32_t> checksums_of(const StateDict& state) {
  std::vector<std::uint32_t> sums;
  for (const auto& [name, value] : state.values()) {
    StateDict one;
    one.put(name, value);
    sums.push_back(crc32c(encode_state(one)));
  }
  return sums;
}

/// Throws RankError if the states of the ranks differ. All ranks call it together.
void compare_states_of_all(Trainer& trainer) {
  Communicator& ranks = trainer.ranks();
  const StateDict state = trainer.state();
  const std::vector<std::uint32_t> mine = checksums_of(state);
  const std::vector<Bytes> all = ranks.gather(bytes_of(mine), "the comparison of states before a checkpoint");
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const auto difference = std::ranges::mismatch(all[0], all[rank]);
    if (difference.in1 == all[0].end() && difference.in2 == all[rank].end()) continue;
    const auto entry = (difference.in1 - all[0].begin()) / std::int64_t{sizeof(std::uint32_t)};
    const bool has_name = entry < std::ssize(state.values());
    ranks.end_together();
    throw RankError(fmt::format(
        "ranks: rank {} and rank 0 disagree about {} after step {}, although all ranks add the same gradients; memory "
        "or a processor of one of them is damaged, or its program has changed the state by itself. The state is not "
        "saved; go on from the newest checkpoint, of which all ranks had the same bits",
        rank, has_name ? std::next(state.values().begin(), entry)->first : "the number of entries of the state",
        trainer.steps()));
  }
}

}  // namespace

FindRecoveryPoint recovery_from_rank_0(Communicator& ranks, FindRecoveryPoint find) {
  if (ranks.alone()) return find;
  return [&ranks, find = std::move(find)](std::int64_t newest, std::int64_t after) -> std::optional<RecoveryPoint> {
    std::optional<RecoveryPoint> found;
    ByteWriter message;
    if (ranks.rank() == 0) {
      ranks.begins(kRecovery, Wait::kWhileAlive);
      found = find(newest, after);
      message.put(found.has_value());
      if (found) message.put(found->step).put(found->name).put(encode_state(found->state));
    }
    const Bytes bytes = ranks.broadcast(message.bytes(), 0, kRecovery);
    if (ranks.rank() == 0) return found;
    ByteReader in(bytes);
    if (!in.get<bool>()) return std::nullopt;
    RecoveryPoint point{.step = in.get<std::int64_t>()};
    point.name = in.get<std::string>();
    point.state = decode_state(in.get<Bytes>());
    return point;
  };
}

std::function<bool(std::int64_t step)> pauses_from_rank_0(Communicator& ranks,
                                                          std::function<bool(std::int64_t step)> pauses) {
  if (ranks.alone()) return pauses;
  return [&ranks, pauses = std::move(pauses)](std::int64_t step) {
    const std::vector<std::uint8_t> mine = {ranks.rank() == 0 && pauses(step)};
    return ranks.broadcast(bytes_of(mine), 0, "the plan of rank 0 for a save").front() != std::byte{};
  };
}

void RunLeader::begun() {
  if (!ranks_.alone()) send(ranks_, ByteWriter().put(Message::kBegun));
}

void RunLeader::loaded(const StateDict& state) {
  if (!ranks_.alone()) send(ranks_, ByteWriter().put(Message::kLoaded).put(encode_state(state)));
}

void RunLeader::observed(double loss) {
  if (!ranks_.alone()) send(ranks_, ByteWriter().put(Message::kObserved).put(loss));
}

std::string StopRequest::text() const {
  std::string at;
  for (const int rank : ranks) at += fmt::format("{}{}", at.empty() ? "" : ", ", rank);
  if (ranks.empty()) return fmt::format("signal {}", signal);
  return fmt::format("signal {} to rank{} {}", signal, ranks.size() == 1 ? "" : "s", at);
}

std::optional<StopRequest> RunLeader::stop_requested() {
  if (!ranks_.alone()) {
    send(ranks_, ByteWriter().put(Message::kStop));
    return stop_request_of_any(ranks_);
  }
  if (!io::StopSignals::stop_requested()) return std::nullopt;
  return StopRequest{io::StopSignals::signal_received()};
}

void RunLeader::compare_states(Trainer& trainer) {
  if (ranks_.alone()) return;
  send(ranks_, ByteWriter().put(Message::kCompare));
  compare_states_of_all(trainer);
}

void RunLeader::goes_on(std::optional<RunEnd> end) {
  if (ranks_.alone()) return;
  if (end)
    send(ranks_, ByteWriter().put(Message::kEnded).put(*end));
  else
    send(ranks_, ByteWriter().put(Message::kGoesOn));
}

RunFollower::RunFollower(Trainer& trainer, std::string folder) : trainer_(trainer), folder_(std::move(folder)) {
  if (!trainer_.ranks().shares_process()) signals_.emplace();
  trainer_.set_recovery(recovery_from_rank_0(trainer_.ranks(), nullptr));
  trainer_.set_pauses(pauses_from_rank_0(trainer_.ranks(), nullptr));
}

RunFollower::~RunFollower() {
  trainer_.set_pauses(nullptr);
  trainer_.set_recovery(nullptr);
}

bool RunFollower::open() {
  const Bytes message = trainer_.ranks().broadcast({}, 0, "the beginning of the run by rank 0");
  ByteReader in(message);
  const bool loaded = in.get<Message>() == Message::kLoaded;
  watch_.emplace(trainer_.ranks(), folder_);
  if (trainer_.faults().planted())
    fault_log_.emplace(io::FilesBelow(folder_), fmt::format("drills-rank-{}.jsonl", trainer_.ranks().rank()),
                       trainer_.faults());
  if (loaded) trainer_.load_state(decode_state(in.get<Bytes>()));
  return loaded;
}

bool RunFollower::goes_on() {
  while (!end_) {
    const Bytes message = trainer_.ranks().broadcast({}, 0, kBetweenSteps);
    ByteReader in(message);
    switch (in.get<Message>()) {
      case Message::kObserved: trainer_.observe(in.get<double>()); break;
      case Message::kCompare: compare_states_of_all(trainer_); break;
      case Message::kStop: stop_ = stop_request_of_any(trainer_.ranks()); break;
      case Message::kGoesOn: return true;
      case Message::kEnded:
        end_ = in.get<RunEnd>();
        if (end_ == RunEnd::kPreempted && stop_)
          io::say_error(fmt::format("stopped by {} after step {}", stop_->text(), trainer_.steps()));
        break;
      default: throw RankError("ranks: rank 0 opens the run twice");
    }
  }
  return false;
}

StepResult RunFollower::record(const std::function<void()>& step) {
  step();
  std::vector<StepResult> ended = trainer_.finished();
  return ended.empty() ? StepResult{} : std::move(ended.back());
}

}  // namespace binade::amp
