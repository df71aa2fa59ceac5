#include "binade/io/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "binade/core/error.h"
#include "binade/core/exclusive_use.h"
#include "binade/core/state_counts.h"

namespace binade::io {
namespace {

std::string name_of(SampleOrder order) {
  constexpr const char* kNames[] = {"shuffled", "random-offset", "sequential"};
  return kNames[static_cast<std::size_t>(order)];
}

}  // namespace

struct LoaderBase::Impl {
  struct MadeBatch {
    BatchOrigin origin;
    std::shared_ptr<void> batch;  // null: outside of the share
  };

  Impl(LoaderOptions options, Make make_batch) : make(std::move(make_batch)), order(std::move(options)) {}

  ~Impl() {
    if (!worker.joinable()) return;
    worker.request_stop();
    worker.join();  // must end before the other members, which the worker uses, are destroyed
  }

  ExclusiveUse use{"loader"};
  Make make;
  mutable std::mutex mutex;  // guards everything below; `make` runs outside it
  std::condition_variable_any changed;
  BatchOrder order;
  std::uint64_t consumed = 0;  // slots (see LoaderBase)
  std::uint64_t read = 0;
  std::uint64_t ahead = 0;  // first slot of the worker's next batch
  Share share{};
  int read_number = 0;           // number of the next batch within the period of the share
  int ahead_number = 0;          // the same for the worker's next batch
  std::uint64_t generation = 0;  // incremented when the batch that the worker is making becomes obsolete
  std::deque<MadeBatch> ready;
  std::exception_ptr failure;  // from making the batch after `ready`; the worker waits until next() has rethrown it
  std::jthread worker;

  /// Makes a batch without holding the lock; if that throws, the lock stays released.
  void complete(MadeBatch& batch, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    batch.batch = make(batch.origin);
    lock.lock();
  }

  bool is_mine(int number) const { return share.first <= number && number < share.end; }
  std::int64_t made_ahead() const {
    return std::ranges::count_if(ready, [](const MadeBatch& one) { return one.batch != nullptr; });
  }

  void work(const std::stop_token& stop, const InheritedRuntime& runtime) {
    const RuntimeScope scope(runtime);
    std::unique_lock lock(mutex);
    for (;;) {
      const std::int64_t limit = order.options().prefetch;
      if (!changed.wait(lock, stop, [&] { return !failure && made_ahead() < limit; })) return;
      const std::uint64_t now = generation;
      try {
        MadeBatch made{order.batch_at(ahead), nullptr};
        if (is_mine(ahead_number)) complete(made, lock);
        if (now != generation) continue;
        const std::uint64_t end = made.origin.end;
        ready.push_back(std::move(made));
        ahead = end;
        ahead_number = (ahead_number + 1) % share.period;
      } catch (...) {  // any exception, also a lack of memory; next() rethrows it
        if (!lock.owns_lock()) lock.lock();
        if (now == generation) failure = std::current_exception();
      }
      changed.notify_all();
    }
  }

  /// Discards the batches that were made but not read; the worker starts again at `read`. The caller must hold the
  /// lock.
  void restart() {
    ready.clear();
    ahead = read;
    ahead_number = read_number;
    failure = nullptr;
    ++generation;
    changed.notify_all();
  }

  /// Starts the worker if LoaderOptions::prefetch > 0; returns true if the worker runs.
  bool start_worker() {
    if (worker.joinable() || order.options().prefetch == 0) return worker.joinable();
    ahead = read;
    ahead_number = read_number;
    try {
      worker = std::jthread([this, runtime = InheritedRuntime()](const std::stop_token& stop) { work(stop, runtime); });
    } catch (const std::system_error&) {
      return false;  // no thread is available now; the caller makes this batch itself
    }
    return true;
  }

  /// Returns the next batch. It is made if `wanted`, and may be made otherwise.
  MadeBatch take(bool wanted) {
    std::unique_lock lock(mutex);
    MadeBatch made;
    const bool works = start_worker();
    if (works) {
      changed.wait(lock, [&] { return !ready.empty() || failure; });
      changed.notify_all();
      if (ready.empty()) std::rethrow_exception(std::exchange(failure, nullptr));
      made = ready.front();  // stays in `ready` if making it here fails
    } else {
      made.origin = order.batch_at(read);
    }
    if (wanted && !made.batch) complete(made, lock);
    if (works) ready.pop_front();
    read = made.origin.end;
    read_number = (read_number + 1) % share.period;
    return made;
  }
};

LoaderBase::LoaderBase(LoaderOptions options, Make make)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(make))) {}
LoaderBase::~LoaderBase() = default;
LoaderBase::LoaderBase(LoaderBase&&) noexcept = default;
LoaderBase& LoaderBase::operator=(LoaderBase&&) noexcept = default;

std::shared_ptr<void> LoaderBase::next_batch() {
  const ExclusiveUse::Call call(impl_->use, "next");
  return impl_->take(true).batch;
}

BatchOrigin LoaderBase::skip() {
  const ExclusiveUse::Call call(impl_->use, "skip");
  return impl_->take(false).origin;
}

void LoaderBase::share(const Share& share) {
  check<ArgumentError>(share.period >= 1 && 0 <= share.first && share.first < share.end && share.end <= share.period,
                       "loader: wanted a part of {} batches, got [{}, {})", share.period, share.first, share.end);
  const std::lock_guard lock(impl_->mutex);
  if (impl_->share == share) return;
  impl_->share = share;
  impl_->read_number = 0;
  impl_->restart();
}

void LoaderBase::commit(const BatchOrigin& origin) {
  const std::lock_guard lock(impl_->mutex);
  impl_->consumed = std::max(impl_->consumed, origin.end);
}

void LoaderBase::rewind() {
  const ExclusiveUse::Call call(impl_->use, "rewind");
  const std::lock_guard lock(impl_->mutex);
  if (impl_->read == impl_->consumed) return;
  impl_->read = impl_->consumed;
  impl_->read_number = 0;
  impl_->restart();
}

void LoaderBase::seek(std::uint64_t slot) {
  const ExclusiveUse::Call call(impl_->use, "seek");
  const std::lock_guard lock(impl_->mutex);
  const bool already_there = impl_->read == slot;
  impl_->consumed = impl_->read = slot;
  impl_->read_number = 0;
  if (!already_there) impl_->restart();
}

void LoaderBase::quarantine(std::int64_t sample) {
  const std::lock_guard lock(impl_->mutex);
  impl_->order.quarantine(sample);
  impl_->restart();
}

std::uint64_t LoaderBase::consumed() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->consumed;
}

std::int64_t LoaderBase::epoch() const {
  return static_cast<std::int64_t>(consumed() / static_cast<std::uint64_t>(options().epoch));
}

std::int64_t LoaderBase::batches_per_epoch() const { return (options().epoch + options().batch - 1) / options().batch; }

const LoaderOptions& LoaderBase::options() const { return impl_->order.options(); }

StateDict LoaderBase::state() const {
  const std::lock_guard lock(impl_->mutex);
  const LoaderOptions& options = impl_->order.options();
  const auto epoch = static_cast<std::uint64_t>(options.epoch);
  StateDict state;
  state.put("batch", options.batch);
  state.put("content", options.content);
  state.put("epoch", static_cast<std::int64_t>(impl_->consumed / epoch));
  state.put("order", name_of(options.order));
  state.put("position", static_cast<std::int64_t>(impl_->consumed % epoch));
  state.put("quarantine", StateDict::Integers(impl_->order.quarantined()));
  state.put("samples", options.samples);
  state.put("seed", static_cast<std::int64_t>(options.seed));
  return state;
}

void LoaderBase::load_state(const StateDict& state) {
  const ExclusiveUse::Call call(impl_->use, "load_state");
  const LoaderOptions& wanted = options();
  const std::string& content = state.text("content");
  check<DataError>(
      content == wanted.content,
      "data: the checkpoint was trained on other data (content {:.12}…, now {:.12}…); resume with the same "
      "files, in any folder",
      content, wanted.content);
  check<DataError>(state.integer("samples") == wanted.samples,
                   "data: the checkpoint's data set has {} samples, this one {}", state.integer("samples"),
                   wanted.samples);
  check<CheckpointError>(state.text("order") == name_of(wanted.order),
                         "data: the checkpoint's order is {}, this loader's {}", state.text("order"),
                         name_of(wanted.order));
  check<CheckpointError>(static_cast<std::uint64_t>(state.integer("seed")) == wanted.seed,
                         "data: the checkpoint's seed is {}, this loader's {}", state.integer("seed"),
                         static_cast<std::int64_t>(wanted.seed));
  state.integer("batch");  // must exist; may differ, because the cursor counts samples
  const std::int64_t epoch = read_count(state, "epoch");
  const std::int64_t position = read_count(state, "position");
  check<CheckpointError>(
      position >= 0 && position < wanted.epoch && epoch >= 0 && epoch < (std::int64_t{1} << 40) / wanted.epoch,
      "data: the checkpoint's cursor is outside the data: epoch {}, position {} of {}", epoch, position, wanted.epoch);
  for (const std::int64_t sample : state.integers("quarantine"))
    check<CheckpointError>(sample >= 0 && sample < wanted.samples,
                           "data: the checkpoint's quarantine list names sample {} of {}", sample, wanted.samples);

  const std::lock_guard lock(impl_->mutex);
  BatchOrder order(wanted);
  for (const std::int64_t sample : state.integers("quarantine")) order.quarantine(sample);
  impl_->order = std::move(order);
  impl_->consumed = impl_->read = static_cast<std::uint64_t>(epoch) * static_cast<std::uint64_t>(wanted.epoch) +
                                  static_cast<std::uint64_t>(position);
  impl_->read_number = 0;
  impl_->restart();
}

}  // namespace binade::io
