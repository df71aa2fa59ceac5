#include "tests/fuzz/watch.h"

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

#include "core/backend.h"
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

}  // namespace binade::fuzz
