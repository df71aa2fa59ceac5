#include "binade/core/per_thread.h"

#include <pthread.h>

#include <utility>

namespace binade::detail {
namespace {

thread_local ThreadOwned* t_owned = nullptr;
thread_local bool t_registered = false;

extern "C" void binade_thread_exit(void*) {
  t_registered = false;
  while (t_owned != nullptr) {  // in a loop, because a destructor may register another object
    ThreadOwned* last = std::exchange(t_owned, t_owned->next);
    last->destroy(last);
  }
}

/// A pthread key, whose destructor runs when a thread ends. Its registration allocates no memory, unlike that of the
/// destructor of a thread_local variable. (In glibc this holds for the first 32 keys of a process; for more keys,
/// pthread_setspecific() allocates, but reports failure.)
struct Key {
  pthread_key_t key{};
  bool valid = pthread_key_create(&key, binade_thread_exit) == 0;
};

}  // namespace

void destroy_at_thread_exit(ThreadOwned& owned) noexcept {
  static const Key exit_key;
  owned.next = std::exchange(t_owned, &owned);
  if (!t_registered) t_registered = exit_key.valid && pthread_setspecific(exit_key.key, &t_owned) == 0;
}

}  // namespace binade::detail
