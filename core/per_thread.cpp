#include "binade/core/per_thread.h"

#include <pthread.h>

#include <utility>

namespace binade::detail {
namespace {

thread_local ThreadOwned* t_owned = nullptr;
thread_local bool t_noted = false;

extern "C" void binade_thread_exit(void*) {
  t_noted = false;
  while (t_owned != nullptr) {  // destructors may make others
    ThreadOwned* last = std::exchange(t_owned, t_owned->next);
    last->destroy(last);
  }
}

/// A key's destructor, unlike a variable's, is noted where every thread has room for it already (glibc: the first 32
/// keys of a process; beyond, pthread_setspecific() allocates, and says so when it cannot).
struct Key {
  pthread_key_t key{};
  bool valid = pthread_key_create(&key, binade_thread_exit) == 0;
};

}  // namespace

void destroy_at_thread_exit(ThreadOwned& owned) noexcept {
  static const Key noted_by;
  owned.next = std::exchange(t_owned, &owned);
  if (!t_noted) t_noted = noted_by.valid && pthread_setspecific(noted_by.key, &t_owned) == 0;
}

}  // namespace binade::detail
