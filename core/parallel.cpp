#include "binade/core/parallel.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "binade/core/observation.h"

namespace binade {
namespace {

/// Cores this process may run on.
int default_threads() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

int g_threads = default_threads();
thread_local bool t_inside = false;

inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Remembers the exception of the lowest block, so that what is reported does not depend on timing.
class FirstError {
 public:
  void keep(std::int64_t block, std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    if (!error_ || block < block_) {
      block_ = block;
      error_ = std::move(error);
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::int64_t block_ = 0;
  std::exception_ptr error_;
};

/// Blocks of one region. Each thread has a run of neighboring blocks of its own, which it takes before it helps with
/// the others': what it wrote in one region lies in its own caches when the next region, over the same rows, reads it.
class Job {
 public:
  Job(std::int64_t blocks, int threads, void (*body)(void*, std::int64_t), void* context)
      : parts_(static_cast<int>(std::min<std::int64_t>({blocks, threads, kMostParts}))),
        body_(body),
        context_(context) {
    for (int i = 0; i < parts_; ++i) {
      part_[i].next.store(blocks * i / parts_, std::memory_order_relaxed);
      part_[i].end = blocks * (i + 1) / parts_;
    }
  }

  /// `thread` is 0 for the caller, and any number otherwise.
  void work(int thread) {
    t_inside = true;
    const Observation outer = detail::exchange_observation({});
    for (int i = 0; i < parts_; ++i) finish(part_[(thread + i) % parts_]);
    const Observation seen = detail::exchange_observation(outer);
    raise(low_, seen.low);
    raise(wide_, seen.wide);
    t_inside = false;
  }

  /// What all threads observed.
  Observation observed() const { return {.low = low_.load(), .wide = wide_.load()}; }
  void rethrow() const { error_.rethrow(); }

 private:
  /// Beyond so many threads some share a run.
  static constexpr int kMostParts = 16;

  /// Alone in two cache lines, as a processor fetches them: threads take blocks without disturbing one another.
  struct alignas(128) Part {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  void finish(Part& part) {
    for (std::int64_t block = part.next.fetch_add(1); block < part.end; block = part.next.fetch_add(1)) {
      try {
        body_(context_, block);
      } catch (...) {
        error_.keep(block, std::current_exception());
      }
    }
  }

  static void raise(std::atomic<std::uint32_t>& to, std::uint32_t word) {
    std::uint32_t now = to.load(std::memory_order_relaxed);
    while (now < word && !to.compare_exchange_weak(now, word, std::memory_order_relaxed)) {
    }
  }

  int parts_;
  void (*body_)(void*, std::int64_t);
  void* context_;
  std::atomic<std::uint32_t> low_{0}, wide_{0};
  FirstError error_;
  Part part_[kMostParts];
};

/// Threads that help the caller with one job at a time. Nobody waits for a helper that has not come: the caller takes
/// blocks until none is left and waits for those alone who took some. On a busy machine, where a helper may get a core
/// only milliseconds later, a barrier over all threads would cost that time in every region.
class Pool {
 public:
  /// False when another thread is using the pool; the job is untouched then.
  bool run(Job& job, int threads) {
    std::unique_lock call(call_mutex_, std::try_to_lock);
    if (!call) return false;
    resize(threads - 1);
    {
      std::lock_guard lock(mutex_);
      job_ = &job;
      generation_.fetch_add(1);
    }
    come_.notify_all();
    job.work(0);
    std::unique_lock lock(mutex_);
    job_ = nullptr;  // too late to join
    if (helping_.load() > 0) {
      lock.unlock();
      for (int i = 0; i < kSpins && helping_.load() > 0; ++i) pause_core();
      lock.lock();
      done_.wait(lock, [&] { return helping_.load() == 0; });
    }
    return true;
  }

 private:
  /// About 20 to 50 microseconds: regions of a training step follow one another faster than a sleeper wakes.
  static constexpr int kSpins = 1000;
  /// What a helper waits beyond that, some 200 microseconds: as long as the parts of a small model's step that run on
  /// one thread. Whoever else wants the core has it meanwhile.
  static constexpr int kYields = 500;
  /// Regions between two tries to start the threads that the system refused: a refusal costs as much as a region.
  static constexpr int kPatience = 1000;

  void resize(int count) {
    if (count != wanted_) stop_all();
    wanted_ = count;
    if (static_cast<int>(threads_.size()) == count || --patience_ > 0) return;
    patience_ = 0;
    try {
      while (static_cast<int>(threads_.size()) < count)
        threads_.emplace_back(
            [this, seen = generation_.load(), thread = static_cast<int>(threads_.size()) + 1] { help(seen, thread); });
    } catch (const std::system_error&) {  // no thread is to be had: those that are there do the work
      patience_ = kPatience;
    } catch (const std::bad_alloc&) {
      patience_ = kPatience;
    }
  }

  void stop_all() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      generation_.fetch_add(1);
    }
    come_.notify_all();
    threads_.clear();  // joins
    stop_ = false;
    patience_ = 0;
  }

  /// `seen` and `stop_` are read under the mutex that they change under: a helper that comes late to one call must not
  /// sleep through the next.
  void help(std::uint64_t seen, int thread) {
    while (true) {
      for (int i = 0; i < kSpins && generation_.load() == seen; ++i) pause_core();
      for (int i = 0; i < kYields && generation_.load() == seen; ++i) std::this_thread::yield();
      Job* job = nullptr;
      {
        std::unique_lock lock(mutex_);
        come_.wait(lock, [&] { return generation_.load() != seen; });
        if (stop_) return;
        seen = generation_.load();
        job = job_;
        if (job != nullptr) helping_.fetch_add(1);
      }
      if (job == nullptr) continue;
      job->work(thread);
      std::lock_guard lock(mutex_);
      if (helping_.fetch_sub(1) == 1) done_.notify_one();
    }
  }

  std::mutex call_mutex_;
  std::mutex mutex_;  // changes of job_, generation_, stop_ and who may join; the atomics are for those who spin
  std::condition_variable come_;
  std::condition_variable done_;
  Job* job_ = nullptr;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> helping_{0};
  bool stop_ = false;
  int wanted_ = 0, patience_ = 0;
  std::vector<std::jthread> threads_;
};

/// Never destroyed: helpers sleep in it until the process ends, and static objects that compute in their destructors
/// still find it. A forked child has no helpers, and perhaps a mutex that one of them held: it begins with a new pool.
Pool*& pool() {
  static Pool* instance = [] {
    pthread_atfork(nullptr, nullptr, [] { pool() = new Pool; });
    return new Pool;
  }();
  return instance;
}

}  // namespace

int num_threads() { return g_threads; }

void set_num_threads(int n) { g_threads = n > 0 ? n : default_threads(); }

namespace detail {

void run_blocks(std::int64_t blocks, void (*body)(void*, std::int64_t), void* context) {
  if (blocks <= 0) return;
  if (blocks == 1 || num_threads() == 1 || t_inside) {
    for (std::int64_t block = 0; block < blocks; ++block) body(context, block);
    return;
  }
  Job job(blocks, num_threads(), body, context);
  if (!pool()->run(job, num_threads())) job.work(0);
  note(job.observed());
  job.rethrow();
}

}  // namespace detail
}  // namespace binade
