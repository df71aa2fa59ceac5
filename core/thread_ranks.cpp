#include "binade/core/thread_ranks.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "binade/core/random.h"

namespace binade {
namespace {

/// Messages that were sent and not yet received.
struct Mailboxes {
  explicit Mailboxes(int count)
      : ranks(count),
        pieces(static_cast<std::size_t>(count) * static_cast<std::size_t>(count)),
        ended(static_cast<std::size_t>(count)) {}
  std::deque<Bytes>& box(int from, int to) { return pieces[static_cast<std::size_t>(from * ranks + to)]; }

  const int ranks;
  std::mutex mutex;  // guards everything below
  std::condition_variable changed;
  std::vector<std::deque<Bytes>> pieces;
  std::string failure{};    // why a rank has failed; empty: none has
  std::vector<bool> ended;  // by rank: its body has returned
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(int rank, std::shared_ptr<Mailboxes> mail, const ThreadRanksOptions& options)
      : Communicator(rank, mail->ranks), mail_(std::move(mail)), options_(options) {
    set_deadline(options.deadline);
  }
  std::string engine() const override { return "threads"; }
  bool shares_process() const override { return true; }
  /// Tells the other ranks that this rank will send nothing more.
  void end() {
    const std::lock_guard lock(mail_->mutex);
    mail_->ended[static_cast<std::size_t>(rank())] = true;
    mail_->changed.notify_all();
  }
  void end_job(const std::string& reason) noexcept override {
    const std::lock_guard lock(mail_->mutex);
    if (mail_->failure.empty()) mail_->failure = fmt::format("ranks: rank {} has ended: {}", rank(), reason);
    mail_->changed.notify_all();
  }

 protected:
  void do_exchange(std::span<const OutgoingPiece> outgoing, std::span<const IncomingPiece> incoming,
                   std::string_view what) override {
    pause();
    {
      const std::lock_guard lock(mail_->mutex);
      for (const OutgoingPiece& piece : outgoing)
        mail_->box(rank(), piece.to).emplace_back(piece.bytes.begin(), piece.bytes.end());
    }
    mail_->changed.notify_all();
    std::unique_lock lock(mail_->mutex);
    auto end = end_of_wait();
    for (const IncomingPiece& piece : incoming) receive(piece, what, end, lock);
    lock.unlock();
    pause();
  }

 private:
  void receive(const IncomingPiece& piece, std::string_view what, std::chrono::steady_clock::time_point& end,
               std::unique_lock<std::mutex>& lock) {
    std::deque<Bytes>& box = mail_->box(piece.from, rank());
    const auto has_ended = [&]() -> bool { return mail_->ended[static_cast<std::size_t>(piece.from)]; };
    const auto ready = [&] { return !box.empty() || !mail_->failure.empty() || has_ended(); };
    for (bool waits = true; waits && !mail_->changed.wait_until(lock, end, ready);) {
      lock.unlock();
      waits = waits_longer(std::span(&piece.from, 1));
      lock.lock();
      end = end_of_wait();
    }
    if (box.empty()) {
      check<RankError>(mail_->failure.empty(), "{} (rank {} waited for rank {} in {})", mail_->failure, rank(),
                       piece.from, what);
      check<RankError>(!has_ended(), "ranks: rank {} has ended, and rank {} waited for it in {}", piece.from, rank(),
                       what);
      throw RankError(timeout_text(rank(), deadline().count(), std::span(&piece.from, 1), what));
    }
    const Bytes bytes = std::move(box.front());
    box.pop_front();
    check<RankError>(bytes.size() == piece.bytes.size(),
                     "ranks: rank {} wanted {} bytes from rank {} in {}, got {}; the ranks are not in the same step",
                     rank(), piece.bytes.size(), piece.from, what, bytes.size());
    std::ranges::copy(bytes, piece.bytes.begin());
  }

  void pause() {
    if (options_.delays == 0) return;
    const RandomStream random{options_.delays, RngPurpose::kData, static_cast<std::uint64_t>(rank())};
    std::this_thread::sleep_for(std::chrono::duration<double>(0.002 * random.uniform(pauses_++)));
  }

  std::shared_ptr<Mailboxes> mail_;
  ThreadRanksOptions options_;
  std::uint64_t pauses_ = 0;
};

struct Ending {
  std::exception_ptr error{};
  bool follows_from_another = false;  // a RankError, which another rank's exception may have caused
};

void run_rank(ThreadRank& communicator, const std::shared_ptr<Communicator>& shared, Ending& ending,
              const std::function<void(const std::shared_ptr<Communicator>&)>& body) {
  try {
    body(shared);
    communicator.end();
  } catch (const RankError& error) {
    ending = {std::current_exception(), true};
    communicator.end_job(error.what());
  } catch (const std::exception& error) {
    ending = {std::current_exception(), false};
    communicator.end_job(error.what());
  } catch (...) {
    ending = {std::current_exception(), false};
    communicator.end_job("an exception that is no std::exception");
  }
}

}  // namespace

void run_thread_ranks(int ranks, const std::function<void(const std::shared_ptr<Communicator>& communicator)>& body,
                      const ThreadRanksOptions& options) {
  check<ArgumentError>(ranks >= 1 && ranks <= 1024, "ranks: wanted 1 to 1024 threads, got {}", ranks);
  const auto mail = std::make_shared<Mailboxes>(ranks);
  std::vector<Ending> endings(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        const auto communicator = std::make_shared<ThreadRank>(rank, mail, options);
        run_rank(*communicator, communicator, endings[static_cast<std::size_t>(rank)], body);
      });
  }
  for (const bool follows : {false, true})
    for (const Ending& ending : endings)
      if (ending.error && ending.follows_from_another == follows) std::rethrow_exception(ending.error);
}

}  // namespace binade
