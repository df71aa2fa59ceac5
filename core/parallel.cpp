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

#include "binade/core/cpu_threads.h"
#include "binade/core/observation.h"
#include "binade/core/runtime.h"

namespace binade {
namespace {

/// Returns the number of cores that this process may use.
int default_threads() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return std::max(1, CPU_COUNT(&allowed));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

thread_local bool t_inside = false;

inline void pause_core() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// The blocks of one parallel region (a call of parallel_blocks). Each thread executes its own range of neighboring
/// blocks before it helps with the ranges of other threads. Thus it processes about the same rows in every region, and
/// finds data that it wrote in one region in its caches in the next.
class Job {
 public:
  Job(std::int64_t blocks, int threads, void (*body)(void*, std::int64_t), void* context)
      : ranges_(static_cast<int>(std::min<std::int64_t>({blocks, threads, kMaxRanges}))),
        body_(body),
        context_(context) {
    for (int i = 0; i < ranges_; ++i) {
      range_[i].next.store(blocks * i / ranges_, std::memory_order_relaxed);
      range_[i].end = blocks * (i + 1) / ranges_;
    }
  }

  /// Executes blocks until none is left. `thread`: number of the thread, 0 for the caller of the region.
  void work(int thread) {
    t_inside = true;
    const Observation outer = detail::exchange_observation({});
    for (int i = 0; i < ranges_; ++i) finish(range_[(thread + i) % ranges_]);
    const Observation seen = detail::exchange_observation(outer);
    raise(low_, seen.low);
    raise(wide_, seen.wide);
    t_inside = false;
  }

  /// Returns the largest magnitudes that kernels observed in all threads.
  Observation observed() const { return {.low = low_.load(), .wide = wide_.load()}; }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  /// If there are more threads than this, some share a range.
  static constexpr int kMaxRanges = 16;

  /// Blocks next … end - 1 are not started yet. Aligned to two cache lines, which processors fetch as a pair, so that
  /// threads do not contend for the lines.
  struct alignas(128) Range {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  void finish(Range& range) {
    for (std::int64_t block = range.next.fetch_add(1); block < range.end; block = range.next.fetch_add(1)) {
      try {
        body_(context_, block);
      } catch (...) {
        const std::lock_guard lock(error_mutex_);
        if (!error_ || block < error_block_) {
          error_block_ = block;
          error_ = std::current_exception();
        }
      }
    }
  }

  static void raise(std::atomic<std::uint32_t>& to, std::uint32_t word) {
    std::uint32_t now = to.load(std::memory_order_relaxed);
    while (now < word && !to.compare_exchange_weak(now, word, std::memory_order_relaxed)) {
    }
  }

  int ranges_;
  void (*body_)(void*, std::int64_t);
  void* context_;
  std::atomic<std::uint32_t> low_{0}, wide_{0};
  std::mutex error_mutex_;
  std::int64_t error_block_ = 0;  // the lowest block that threw; its error is reported, so that timing does not matter
  std::exception_ptr error_;
  Range range_[kMaxRanges];
};

/// Number of fork() calls from the first process to this one. A child does not have the threads of its parent.
std::atomic<int> g_forks = 0;

}  // namespace

/// Threads that help the caller with one job at a time. The caller executes blocks until none is left, then waits only
/// for helpers that have started. On a busy machine a helper may get a core milliseconds late, and a barrier over all
/// threads would cost that time in every region.
class CpuThreads::Pool {
 public:
  ~Pool() { stop_all(); }

  /// Returns false, without running the job, if another thread is using the pool.
  bool run(Job& job, int threads) {
    std::unique_lock call(call_mutex_, std::try_to_lock);
    if (!call) return false;
    resize(threads - 1);
    {
      std::lock_guard lock(mutex_);
      job_ = &job;
      generation_.fetch_add(1);
    }
    wake_.notify_all();
    job.work(0);
    std::unique_lock lock(mutex_);
    job_ = nullptr;  // no more helpers may join
    if (helping_.load() > 0) {
      lock.unlock();
      for (int i = 0; i < kSpins && helping_.load() > 0; ++i) pause_core();
      lock.lock();
      done_.wait(lock, [&] { return helping_.load() == 0; });
    }
    return true;
  }

 private:
  /// Number of times that a waiting thread checks for work in a loop, 20 to 50 microseconds: regions of a training step
  /// follow each other faster than a sleeping thread wakes.
  static constexpr int kSpins = 1000;
  /// Number of times that it then checks and yields the core to other threads before it sleeps. This takes about 200
  /// microseconds, as long as the single-threaded parts of a small model's step.
  static constexpr int kYields = 500;
  /// If the system refuses to start threads, the pool tries again after this number of regions, because each refusal
  /// takes as long as a region.
  static constexpr int kPatience = 1000;

  void resize(int count) {
    if (count != wanted_) stop_all();
    wanted_ = count;
    if (static_cast<int>(threads_.size()) == count || --patience_ > 0) return;
    patience_ = 0;
    try {
      while (static_cast<int>(threads_.size()) < count)
        threads_.emplace_back([this, seen = generation_.load(), thread = static_cast<int>(threads_.size()) + 1,
                               runtime = InheritedRuntime()] {
          const RuntimeScope scope(runtime);
          help(seen, thread);
        });
    } catch (const std::system_error&) {  // the region continues with the existing threads
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
    wake_.notify_all();
    threads_.clear();  // waits until all helper threads have ended
    stop_ = false;
    patience_ = 0;
  }

  /// The loop of a helper thread. `seen`: the generation of the last job that it has noticed. It is updated, and
  /// `stop_` is read, under the mutex, so that a helper that is late for one job does not miss the next.
  void help(std::uint64_t seen, int thread) {
    while (true) {
      for (int i = 0; i < kSpins && generation_.load() == seen; ++i) pause_core();
      for (int i = 0; i < kYields && generation_.load() == seen; ++i) std::this_thread::yield();
      Job* job = nullptr;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return generation_.load() != seen; });
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
  std::mutex mutex_;  // guards job_, generation_, stop_ and joining; spinning threads read the atomics without it
  std::condition_variable wake_;
  std::condition_variable done_;
  Job* job_ = nullptr;
  std::atomic<std::uint64_t> generation_{0};
  std::atomic<int> helping_{0};
  bool stop_ = false;
  int wanted_ = 0, patience_ = 0;
  std::vector<std::jthread> threads_;
};

CpuThreads::CpuThreads() : count_(default_threads()) {}
CpuThreads::~CpuThreads() {
  if (forks_ == g_forks) delete pool_.load();
}

void CpuThreads::set_count(int n) { count_.store(n > 0 ? n : default_threads(), std::memory_order_relaxed); }

/// After fork(), the child process makes a new pool. It does not touch the pool of its parent, whose helper threads do
/// not exist in the child, and whose mutexes may be locked.
CpuThreads::Pool& CpuThreads::pool() {
  static const int handler = pthread_atfork(nullptr, nullptr, [] { ++g_forks; });
  static_cast<void>(handler);
  Pool* made = pool_.load(std::memory_order_acquire);
  if (made != nullptr && forks_ == g_forks) [[likely]]
    return *made;
  auto next = std::make_unique<Pool>();
  forks_ = g_forks.load();
  if (pool_.compare_exchange_strong(made, next.get())) made = next.release();  // else another thread was faster
  return *made;
}

namespace {

/// Returns the CpuThreads that execute this thread's regions. Those of the process are never destroyed, because the
/// helper threads wait until the process ends, and destructors of static objects may use them.
CpuThreads& threads_of_this_thread() {
  if (Runtime* const runtime = Runtime::find_current()) return runtime->cpu_threads();
  static CpuThreads* const process = new CpuThreads;
  return *process;
}

}  // namespace

int num_threads() { return threads_of_this_thread().count(); }

void set_num_threads(int n) { threads_of_this_thread().set_count(n); }

namespace detail {

void run_blocks(std::int64_t blocks, void (*body)(void*, std::int64_t), void* context) {
  if (blocks <= 0) return;
  CpuThreads* const threads = blocks == 1 || t_inside ? nullptr : &threads_of_this_thread();
  const int count = threads != nullptr ? threads->count() : 1;
  if (count == 1) {
    for (std::int64_t block = 0; block < blocks; ++block) body(context, block);
    return;
  }
  Job job(blocks, count, body, context);
  if (!threads->pool().run(job, count)) job.work(0);
  note(job.observed());
  job.rethrow();
}

}  // namespace detail
}  // namespace binade
