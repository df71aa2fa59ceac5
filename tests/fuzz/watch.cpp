#include "tests/fuzz/watch.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "binade/core/backend.h"
#include "binade/core/error.h"
#include "tests/fuzz/heap.h"

namespace binade::fuzz {
namespace {

/// The command line that replays the current input, printed if the process dies.
char being_read[200] = "between inputs";
unsigned hang_seconds = 0;

void say(const char* text) {
  const auto written = ::write(2, text, std::strlen(text));
  (void)written;
}

void tell_input() {
  say("\ndied of: ");
  say(being_read);
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

void watch_for_death(unsigned seconds) {
  hang_seconds = seconds;
  std::signal(SIGALRM, on_hang);
  heap::watch(tell_input);
  alive();
}

void alive() { ::alarm(hang_seconds); }

void name_input(const std::string& replay, std::uint64_t index) {
  std::snprintf(being_read, sizeof being_read, "%s%llu", replay.c_str(), static_cast<unsigned long long>(index));
}

double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void limit_memory(std::size_t bytes) { heap::limit(bytes); }

}  // namespace binade::fuzz
