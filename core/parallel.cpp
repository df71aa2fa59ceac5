#include "core/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#if !defined(_OPENMP)
#include <condition_variable>
#include <vector>
#endif

namespace binade {
namespace {

int default_threads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

int g_threads = default_threads();
thread_local bool t_inside = false;

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

struct Job {
  std::int64_t blocks = 0;
  void (*body)(void*, std::int64_t) = nullptr;
  void* context = nullptr;
  std::atomic<std::int64_t> next{0};
  FirstError error;

  void work() {
    t_inside = true;
    for (std::int64_t block = next.fetch_add(1); block < blocks; block = next.fetch_add(1)) {
      try {
        body(context, block);
      } catch (...) {
        error.keep(block, std::current_exception());
      }
    }
    t_inside = false;
  }
};

#if !defined(_OPENMP)
/// Threads that sleep between jobs. One job at a time; the caller works too.
class Pool {
 public:
  ~Pool() { resize(0); }

  void run(Job& job, int threads) {
    std::unique_lock call(call_mutex_);
    resize(threads - 1);
    {
      std::lock_guard lock(mutex_);
      job_ = &job;
      ++generation_;
      busy_ = static_cast<int>(threads_.size());
    }
    wake_.notify_all();
    job.work();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return busy_ == 0; });
    job_ = nullptr;
  }

 private:
  void resize(int count) {
    if (static_cast<int>(threads_.size()) == count) return;
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    threads_.clear();  // joins
    stop_ = false;
    for (int i = 0; i < count; ++i) threads_.emplace_back([this, seen = generation_] { loop(seen); });
  }

  void loop(std::uint64_t seen) {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      Job* job = job_;
      lock.unlock();
      job->work();
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex call_mutex_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Job* job_ = nullptr;
  std::uint64_t generation_ = 0;
  int busy_ = 0;
  bool stop_ = false;
  std::vector<std::jthread> threads_;
};
#endif

void run_job(Job& job, int threads) {
#if defined(_OPENMP)
#pragma omp parallel num_threads(threads)
  job.work();
#else
  static Pool pool;
  pool.run(job, threads);
#endif
}

}  // namespace

int num_threads() { return g_threads; }

void set_num_threads(int n) { g_threads = n > 0 ? n : default_threads(); }

namespace detail {

void run_blocks(std::int64_t blocks, void (*body)(void*, std::int64_t), void* context) {
  if (blocks <= 0) return;
  const int threads = static_cast<int>(std::min<std::int64_t>(blocks, num_threads()));
  if (threads == 1 || t_inside) {
    for (std::int64_t block = 0; block < blocks; ++block) body(context, block);
    return;
  }
  Job job;
  job.blocks = blocks;
  job.body = body;
  job.context = context;
  run_job(job, threads);
  job.error.rethrow();
}

}  // namespace detail
}  // namespace binade
