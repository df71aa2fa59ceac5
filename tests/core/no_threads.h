#pragma once

#include <pthread.h>

#include <cstddef>

namespace binade::test {

/// During its lifetime no thread can be started, because the default size of stacks exceeds the address space.
class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&usual_);
    pthread_attr_t huge = usual_;
    pthread_attr_setstacksize(&huge, std::size_t{1} << 50);
    pthread_setattr_default_np(&huge);
  }
  ~NoThreads() { pthread_setattr_default_np(&usual_); }
  NoThreads(const NoThreads&) = delete;

 private:
  pthread_attr_t usual_;
};

}  // namespace binade::test
