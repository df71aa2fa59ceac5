#include "binade/io/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "binade/core/error.h"
#include "binade/core/exclusive_use.h"
#include "binade/core/state_counts.h"

namespace binade::io {

struct LoaderBase::Impl {
  /// A batch that is made ahead. `origin` and `obsolete` do not change; the mutex guards the rest.
  struct Entry {
    enum class Status {
      kWaiting,   // for a worker
      kMaking,    // a worker makes it
      kDone,      // `batch` is null if another rank makes it
      kFailed,    // next() will throw `failure`
      kReported,  // next() has thrown; the next call makes it again
    };
    BatchOrigin origin;
    std::stop_source obsolete;
    Status status = Status::kWaiting;
    bool has_place = true;  // false: claim() failed, so the batch is claimed again
    std::shared_ptr<void> input;
    std::shared_ptr<void> batch;
    std::exception_ptr failure;
  };
  using Lock = std::unique_lock<std::mutex>;

  Impl(LoaderOptions options, Make make_batch, Read read_input)
      : make(std::move(make_batch)), read_in_order(std::move(read_input)), order(std::move(options)) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      discard();
    }
    for (std::jthread& worker : workers) worker.request_stop();
    workers.clear();  // joins; the workers use the other members
  }

  ExclusiveUse use{"loader"};
  Make make;
  Read read_in_order;
  mutable std::mutex mutex;  // guards everything below; `make` and `read_in_order` run outside it
  std::condition_variable_any changed;
  BatchOrder order;
  std::uint64_t consumed = 0;  // slots (see LoaderBase)
  std::uint64_t read = 0;
  std::uint64_t ahead = 0;  // first slot of the next batch that a worker claims
  Share share{};
  int read_number = 0;                       // number of the next batch within the period of the share
  int ahead_number = 0;                      // the same for the next batch that a worker claims
  std::uint64_t generation = 0;              // incremented when the batches that are being made become obsolete
  bool reading = false;                      // true while a thread is in `read_in_order`
  std::exception_ptr shortage;               // an entry could not be allocated; next() throws it
  std::deque<std::shared_ptr<Entry>> queue;  // in order; the first is the next that next() returns
  std::vector<std::jthread> workers;

  bool is_mine(int number) const { return share.first <= number && number < share.end; }
  std::int64_t limit() const { return std::max(order.options().prefetch, order.options().workers); }

  std::shared_ptr<Entry> first_waiting() const {
    const auto at = std::ranges::find(queue, Entry::Status::kWaiting, [](const auto& entry) { return entry->status; });
    return at == queue.end() ? nullptr : *at;
  }
  bool can_claim() const {
    if (reading || (!queue.empty() && !queue.back()->has_place)) return false;
    return std::ranges::count_if(queue, [](const auto& e) { return e->batch || e->status != Entry::Status::kDone; }) <
           limit();
  }

  /// Reads the input of a batch without holding the lock. Holds it again afterwards, also if reading throws.
  std::shared_ptr<void> read_input(const BatchOrigin& origin, const std::stop_source& obsolete, Lock& lock) {
    if (!read_in_order) return nullptr;
    changed.wait(lock, [&] { return !reading; });
    reading = true;
    std::exception_ptr failure;
    std::shared_ptr<void> input;
    lock.unlock();
    try {
      input = read_in_order(origin, obsolete.get_token());
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    reading = false;
    changed.notify_all();
    if (failure) std::rethrow_exception(failure);
    return input;
  }

  /// Makes an entry's batch without holding the lock.
  void make_entry(Entry& entry, Lock& lock) {
    entry.status = Entry::Status::kMaking;
    const LoaderWork work{entry.input, entry.obsolete.get_token()};
    std::shared_ptr<void> batch;
    std::exception_ptr failure;
    lock.unlock();
    try {
      batch = make(entry.origin, work);
    } catch (...) {  // any exception, also a lack of memory; next() rethrows it
      failure = std::current_exception();
    }
    lock.lock();
    entry.batch = std::move(batch);
    entry.failure = failure;
    entry.status = failure ? Entry::Status::kFailed : Entry::Status::kDone;
    changed.notify_all();
  }

  /// Adds the next batch to the queue. Returns its entry if a worker has to make it. Throws, with nothing changed, if
  /// there is no memory for the entry itself.
  std::shared_ptr<Entry> claim(Lock& lock) {
    const auto entry = std::make_shared<Entry>();
    entry->status = Entry::Status::kMaking;
    queue.push_back(entry);  // before it is read, so that no input can be lost
    const std::uint64_t now = generation;
    const bool mine = is_mine(ahead_number);
    try {
      entry->origin = order.batch_at(ahead);
      if (mine) entry->input = read_input(entry->origin, entry->obsolete, lock);
      if (now != generation) return nullptr;
      ahead = entry->origin.end;
      ahead_number = (ahead_number + 1) % share.period;
      entry->status = mine ? Entry::Status::kWaiting : Entry::Status::kDone;
    } catch (...) {
      if (now != generation) return nullptr;
      entry->failure = std::current_exception();
      entry->status = Entry::Status::kFailed;
      entry->has_place = false;
    }
    changed.notify_all();
    return entry->status == Entry::Status::kWaiting ? entry : nullptr;
  }

  void work(const std::stop_token& stop, const InheritedRuntime& runtime) {
    const RuntimeScope scope(runtime);
    Lock lock(mutex);
    while (changed.wait(lock, stop, [&] { return first_waiting() || (!shortage && can_claim()); })) {
      if (stop.stop_requested()) return;
      try {
        std::shared_ptr<Entry> entry = first_waiting();
        if (!entry) entry = claim(lock);
        if (entry && entry->status == Entry::Status::kWaiting) make_entry(*entry, lock);
      } catch (...) {
        shortage = std::current_exception();
        changed.notify_all();
      }
    }
  }

  /// Discards the batches that were made but not read.
  void discard() {
    for (const auto& entry : queue) entry->obsolete.request_stop();
    queue.clear();
    shortage = nullptr;
    ++generation;
  }

  /// Discards these batches; the workers then start again at `read`. The caller must hold the lock.
  void restart() {
    discard();
    ahead = read;
    ahead_number = read_number;
    changed.notify_all();
  }

  /// Starts the workers if LoaderOptions::prefetch > 0; returns true if there are any.
  bool start_workers() {
    if (!workers.empty() || order.options().prefetch == 0) return !workers.empty();
    ahead = read;
    ahead_number = read_number;
    try {
      for (int i = 0; i < order.options().workers; ++i)
        workers.emplace_back(
            [this, runtime = InheritedRuntime()](const std::stop_token& stop) { work(stop, runtime); });
    } catch (const std::system_error&) {
      // No more threads can be started. Those that started make the batches; without any, the caller does.
    }
    return !workers.empty();
  }

  /// Waits for the first entry of the queue to be done. Throws its exception if it failed.
  std::shared_ptr<Entry> wait_for_first(Lock& lock) {
    if (!queue.empty() && queue.front()->status == Entry::Status::kReported) {
      queue.front()->status = Entry::Status::kWaiting;
      changed.notify_all();
    }
    changed.wait(lock, [&] {
      if (queue.empty()) return shortage != nullptr;
      return queue.front()->status == Entry::Status::kDone || queue.front()->status == Entry::Status::kFailed;
    });
    if (queue.empty()) {
      changed.notify_all();
      std::rethrow_exception(std::exchange(shortage, nullptr));
    }
    std::shared_ptr<Entry> entry = queue.front();
    if (entry->status == Entry::Status::kDone) return entry;
    entry->status = Entry::Status::kReported;
    if (!entry->has_place) queue.pop_front();
    changed.notify_all();
    std::rethrow_exception(entry->failure);
  }

  /// Returns the entry of the next batch. If not `wanted`, the batch in it may be null.
  std::shared_ptr<Entry> take(bool wanted) {
    Lock lock(mutex);
    std::shared_ptr<Entry> entry;
    if (start_workers()) {
      entry = wait_for_first(lock);
    } else {
      entry = std::make_shared<Entry>();
      entry->origin = order.batch_at(read);
    }
    if (wanted && !entry->batch) {
      entry->input = read_input(entry->origin, entry->obsolete, lock);
      make_entry(*entry, lock);
      if (entry->failure) {
        entry->status = Entry::Status::kDone;  // but without a batch: the next call makes it again
        std::rethrow_exception(std::exchange(entry->failure, nullptr));
      }
    }
    if (!queue.empty() && queue.front() == entry) queue.pop_front();
    changed.notify_all();
    read = entry->origin.end;
    read_number = (read_number + 1) % share.period;
    return entry;
  }
};

LoaderBase::LoaderBase(LoaderOptions options, Make make, Read read)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(make), std::move(read))) {}
LoaderBase::~LoaderBase() = default;
LoaderBase::LoaderBase(LoaderBase&&) noexcept = default;
LoaderBase& LoaderBase::operator=(LoaderBase&&) noexcept = default;

std::shared_ptr<void> LoaderBase::next_batch() {
  const ExclusiveUse::Call call(impl_->use, "next");
  return impl_->take(true)->batch;
}

BatchOrigin LoaderBase::skip() {
  const ExclusiveUse::Call call(impl_->use, "skip");
  return impl_->take(false)->origin;
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

std::int64_t LoaderBase::batches_per_epoch() const {
  const std::int64_t number = epoch();
  const std::lock_guard lock(impl_->mutex);
  return impl_->order.batches_in(number);
}

const LoaderOptions& LoaderBase::options() const { return impl_->order.options(); }

StateDict LoaderBase::state() const {
  const std::lock_guard lock(impl_->mutex);
  const LoaderOptions& options = impl_->order.options();
  const auto epoch = static_cast<std::uint64_t>(options.epoch);
  StateDict state;
  state.put("batch", options.batch);
  state.put("content", options.content);
  state.put("epoch", static_cast<std::int64_t>(impl_->consumed / epoch));
  state.put("order", impl_->order.name());
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
  const std::string order_name = BatchOrder(wanted).name();
  check<CheckpointError>(state.text("order") == order_name, "data: the checkpoint's order is {}, this loader's {}",
                         state.text("order"), order_name);
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
