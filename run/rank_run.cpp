#include "binade/run/rank_run.h"

#include "binade/amp/ranks/bytes.h"
#include "binade/amp/ranks/state_bytes.h"

namespace binade::amp {
namespace {

enum class Message : std::uint8_t {
  kBegun,     ///< the run begins
  kLoaded,    ///< the run goes on from the state that follows
  kObserved,  ///< a validation loss follows
  kStop,      ///< rank 0 asks if a signal has asked to stop
  kGoesOn,    ///< a step follows
  kEnded,     ///< the run has ended; its RunEnd follows
};

constexpr const char* kBetweenSteps = "the message of rank 0 between two steps";
constexpr const char* kRecovery = "the search of rank 0 for a checkpoint";

void send(Communicator& ranks, const ByteWriter& message) { ranks.broadcast(message.bytes(), 0, kBetweenSteps); }

/// Returns true if a signal has asked any rank to stop. All ranks call it together.
bool any_stop_requested(Communicator& ranks) {
  const std::vector<std::uint8_t> mine = {io::StopSignals::stop_requested()};
  bool stop = false;
  for (const Bytes& one : ranks.gather(bytes_of(mine), "the question for signals"))
    stop = stop || one[0] != std::byte{};
  return stop;
}

}  // namespace

FindRecoveryPoint shared_recovery(Communicator& ranks, FindRecoveryPoint find) {
  if (ranks.alone()) return find;
  return [&ranks, find = std::move(find)](std::int64_t newest, std::int64_t after) -> std::optional<RecoveryPoint> {
    std::optional<RecoveryPoint> found;
    ByteWriter message;
    if (ranks.rank() == 0) {
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

std::function<bool(std::int64_t step)> shared_pauses(Communicator& ranks,
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

bool RunLeader::stop_requested() {
  if (ranks_.alone()) return io::StopSignals::stop_requested();
  send(ranks_, ByteWriter().put(Message::kStop));
  return any_stop_requested(ranks_);
}

void RunLeader::goes_on(std::optional<RunEnd> end) {
  if (ranks_.alone()) return;
  if (end)
    send(ranks_, ByteWriter().put(Message::kEnded).put(*end));
  else
    send(ranks_, ByteWriter().put(Message::kGoesOn));
}

RunFollower::RunFollower(Trainer& trainer) : trainer_(trainer) {
  if (!trainer_.ranks().shares_process()) signals_.emplace();
  trainer_.set_recovery(shared_recovery(trainer_.ranks(), nullptr));
  trainer_.set_pauses(shared_pauses(trainer_.ranks(), nullptr));
}

RunFollower::~RunFollower() {
  trainer_.set_pauses(nullptr);
  trainer_.set_recovery(nullptr);
}

bool RunFollower::open() {
  const Bytes message = trainer_.ranks().broadcast({}, 0, "the beginning of the run by rank 0");
  ByteReader in(message);
  const bool loaded = in.get<Message>() == Message::kLoaded;
  if (loaded) trainer_.load_state(decode_state(in.get<Bytes>()));
  return loaded;
}

bool RunFollower::goes_on() {
  while (!end_) {
    const Bytes message = trainer_.ranks().broadcast({}, 0, kBetweenSteps);
    ByteReader in(message);
    switch (in.get<Message>()) {
      case Message::kObserved: trainer_.observe(in.get<double>()); break;
      case Message::kStop: any_stop_requested(trainer_.ranks()); break;
      case Message::kGoesOn: return true;
      case Message::kEnded: end_ = in.get<RunEnd>(); break;
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
