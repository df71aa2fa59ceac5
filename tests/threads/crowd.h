#pragma once

#include <barrier>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace binade::test {

/// Threads that live for several calls of run(). In each call they start to work at the same moment, so that they use
/// an object for the first time at the same moment.
class Crowd {
 public:
  explicit Crowd(int threads) : start_(threads + 1), end_(threads + 1) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this, i] { live(i); });
  }
  ~Crowd() {
    work_ = nullptr;
    start_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }
  Crowd(const Crowd&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }

  /// Calls work(i) on each thread i and waits for all. Rethrows an exception of one of them.
  void run(const std::function<void(int)>& work) {
    work_ = work;
    start_.arrive_and_wait();
    end_.arrive_and_wait();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void live(int index) {
    for (;;) {
      start_.arrive_and_wait();
      if (!work_) return;
      try {
        work_(index);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        error_ = std::current_exception();
      }
      end_.arrive_and_wait();
    }
  }

  std::function<void(int)> work_;
  std::barrier<> start_, end_;
  std::mutex mutex_;  // guards error_
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace binade::test
