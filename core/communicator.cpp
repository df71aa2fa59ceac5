#include "binade/core/communicator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace binade {
namespace {

constexpr double kDeadline = 300;  // seconds

double default_deadline() {
  const char* text = std::getenv("BINADE_RANK_DEADLINE");
  if (text == nullptr) return kDeadline;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  check<ArgumentError>(end != text && *end == 0 && seconds > 0 && seconds < 1e9,
                       "ranks: wanted seconds in BINADE_RANK_DEADLINE, got '{}'", text);
  return seconds;
}

class Alone final : public Communicator {
 public:
  Alone() : Communicator(0, 1) {}
  std::string engine() const override { return "alone"; }
  void end_job(const std::string&) noexcept override {}

 protected:
  void do_exchange(std::span<const OutgoingPiece>, std::span<const IncomingPiece>, std::string_view) override {}
};

}  // namespace

Communicator::Communicator(int rank, int size)
    : rank_(rank),
      size_(size),
      deadline_(default_deadline()),
      last_exchange_(std::chrono::steady_clock::now()),
      since_(last_exchange_) {
  check<ArgumentError>(size >= 1 && rank >= 0 && rank < size, "ranks: wanted a rank below {}, got {}", size, rank);
}

void Communicator::exchange(std::span<const OutgoingPiece> outgoing, std::span<const IncomingPiece> incoming,
                            std::string_view what) {
  const auto is_other = [this](int rank) { return rank >= 0 && rank < size_ && rank != rank_; };
  for (const OutgoingPiece& piece : outgoing) {
    check<ArgumentError>(is_other(piece.to), "ranks: rank {} of {} cannot send to rank {}", rank_, size_, piece.to);
    traffic_.bytes_sent += std::ssize(piece.bytes);
  }
  for (const IncomingPiece& piece : incoming)
    check<ArgumentError>(is_other(piece.from), "ranks: rank {} of {} cannot receive from rank {}", rank_, size_,
                         piece.from);
  ends_together_ = false;
  const auto begin = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    what_ = what;
    since_ = begin;
    wait_ = Wait::kUntilDeadline;
    waits_for_.clear();
    for (const IncomingPiece& piece : incoming)
      if (std::ranges::find(waits_for_, piece.from) == waits_for_.end()) waits_for_.push_back(piece.from);
  }
  try {
    do_exchange(outgoing, incoming, what);
  } catch (const RankError& error) {
    // waits_for_ is still set, so that the other ranks see this rank waiting while report_() runs.
    const std::string report = report_ && std::chrono::steady_clock::now() >= begin + deadline_ ? report_() : "";
    if (report.empty()) throw;
    throw RankError(report + error.what());
  }
  last_exchange_ = std::chrono::steady_clock::now();
  ++traffic_.exchanges;
  traffic_.seconds += std::chrono::duration<double>(last_exchange_ - begin).count();
  const std::lock_guard lock(mutex_);
  what_ = fmt::format("the work after {}", what);
  since_ = last_exchange_;
  waits_for_.clear();
}

Communicator::Activity Communicator::activity() const {
  const std::lock_guard lock(mutex_);
  return {what_, waits_for_, std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count(), wait_};
}

void Communicator::begins(std::string_view what, Wait wait) {
  if (alone()) return;
  const std::lock_guard lock(mutex_);
  what_ = what;
  wait_ = wait;
  since_ = std::chrono::steady_clock::now();
}

std::chrono::steady_clock::time_point Communicator::end_of_wait() const {
  return std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(deadline_);
}

double Communicator::seconds_of_own() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - last_exchange_).count();
}

std::vector<Bytes> Communicator::gather(std::span<const std::byte> mine, std::string_view what) {
  std::vector<Bytes> all(static_cast<std::size_t>(size_));
  all[static_cast<std::size_t>(rank_)].assign(mine.begin(), mine.end());
  if (alone()) return all;
  const std::vector<std::uint64_t> size = {mine.size()};
  std::vector<std::uint64_t> sizes(all.size(), mine.size());
  std::vector<OutgoingPiece> outgoing;
  std::vector<IncomingPiece> incoming;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    outgoing.push_back({peer, bytes_of(size)});
    incoming.push_back({peer, std::as_writable_bytes(std::span(&sizes[static_cast<std::size_t>(peer)], 1))});
  }
  exchange(outgoing, incoming, what);
  for (OutgoingPiece& piece : outgoing) piece.bytes = mine;
  for (IncomingPiece& piece : incoming) {
    Bytes& bytes = all[static_cast<std::size_t>(piece.from)];
    bytes.resize(sizes[static_cast<std::size_t>(piece.from)]);
    piece.bytes = bytes;
  }
  exchange(outgoing, incoming, what);
  return all;
}

Bytes Communicator::broadcast(std::span<const std::byte> mine, int root, std::string_view what) {
  check<ArgumentError>(root >= 0 && root < size_, "ranks: rank {} of {} cannot send to all", root, size_);
  const auto sends = [&](std::span<const std::byte> bytes) {
    std::vector<OutgoingPiece> outgoing;
    for (int peer = 0; peer < size_; ++peer)
      if (peer != root) outgoing.push_back({peer, bytes});
    exchange(outgoing, {}, what);
  };
  std::uint64_t size = mine.size();
  const std::span<std::uint64_t> header(&size, 1);
  if (rank_ == root) {
    sends(std::as_bytes(header));
    sends(mine);
    return {mine.begin(), mine.end()};
  }
  IncomingPiece incoming{root, std::as_writable_bytes(header)};
  exchange({}, std::span(&incoming, 1), what);
  Bytes bytes(size);
  incoming.bytes = bytes;
  exchange({}, std::span(&incoming, 1), what);
  return bytes;
}

void Communicator::barrier(std::string_view what) { gather({}, what); }

std::shared_ptr<Communicator> alone() { return std::make_shared<Alone>(); }

std::string timeout_text(int rank, double seconds, std::span<const int> missing, std::string_view what) {
  std::string ranks;
  for (const int one : missing) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", one);
  return fmt::format(
      "ranks: rank {} waited {:.3g} s for rank{} {} in {}; see what {} at that time, or set "
      "BINADE_RANK_DEADLINE to more seconds",
      rank, seconds, missing.size() == 1 ? "" : "s", ranks, what, missing.size() == 1 ? "it did" : "they did");
}

}  // namespace binade
