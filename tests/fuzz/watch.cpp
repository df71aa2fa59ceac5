#include "tests/fuzz/watch.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "core/backend.h"
#include "core/error.h"
#include "tests/fuzz/heap.h"

namespace binade::fuzz {
namespace {

const char* (*what_is_read)() = nullptr;
unsigned hang_seconds = 0;

void say(const char* text) {
  const auto written = ::write(2, text, std::strlen(text));
  (void)written;
}

void tell_input() {
  say("\nfuzz: ");
  say(what_is_read());
  say("\n");
}

void on_hang(int) {
  tell_input();
  say("fuzz: no answer for too long\n");
  std::_Exit(1);
}

}  // namespace

MemoryWatch::MemoryWatch() : before_(heap::live()) {
  heap::set_peak(before_);
  backend_of(Device::cpu()).reset_peak();
}

std::size_t MemoryWatch::peak() const {
  const std::int64_t heap = heap::peak() - before_;
  return static_cast<std::size_t>(heap > 0 ? heap : 0) + backend_of(Device::cpu()).bytes_peak();
}

void watch_for_death(const char* (*what)(), unsigned seconds) {
  what_is_read = what;
  hang_seconds = seconds;
  std::signal(SIGALRM, on_hang);
  heap::watch(tell_input);
  alive();
}

void alive() { ::alarm(hang_seconds); }

void limit_memory(std::size_t bytes) {
  // RLIMIT_DATA and not RLIMIT_AS: the sanitizers reserve terabytes of addresses that they never touch.
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t kib = 0;
  while (status >> word && word != "VmData:") {
  }
  status >> kib;
  const rlimit limit{kib * 1024 + bytes, RLIM_INFINITY};
  check<Error>(status.good() && ::setrlimit(RLIMIT_DATA, &limit) == 0,
               "fuzz: the memory of this process cannot be limited");
}

}  // namespace binade::fuzz
