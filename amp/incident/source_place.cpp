#include "binade/amp/incident/source_place.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <link.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>

#include "binade/amp/text.h"

namespace binade::amp {
namespace {

constexpr const char* kAddr2line = "/usr/bin/addr2line";
using Clock = std::chrono::steady_clock;

/// The places found so far, by call stack, and the time that may still be spent on further call stacks.
struct Known {
  std::mutex mutex{};
  std::map<CallStack, std::optional<SourcePlace>> places{};
  Clock::duration budget = std::chrono::seconds(5);
};

Known& known() {
  static Known all;
  return all;
}

/// The program or library that contains a return address.
struct CodeObject {
  std::string path{};
  bool is_program = false;  // true if it is no shared library
  std::uintptr_t bias = 0;  // address in memory minus address in the file
  const void* base = nullptr;
  std::string symbol{};  // exported symbol at the address; empty if there is none
};

std::optional<CodeObject> object_of(const void* address) {
  Dl_info info{};
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr)
    return std::nullopt;
  const bool is_program = map->l_name == nullptr || *map->l_name == '\0';
  std::error_code error;
  return CodeObject{.path = is_program ? std::filesystem::read_symlink("/proc/self/exe", error).string() : map->l_name,
                    .is_program = is_program,
                    .bias = map->l_addr,
                    .base = info.dli_fbase,
                    .symbol = info.dli_sname == nullptr ? "" : info.dli_sname};
}

/// Returns what a program prints to stdout; an empty text if it cannot be run or takes longer than `budget`, from which
/// its time is subtracted.
std::string output_of(std::vector<std::string> command, Clock::duration& budget) {
  if (budget <= Clock::duration::zero()) return "";
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  pid_t child = -1;
  const int error = ::posix_spawn(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  std::string text;
  bool ended = error != 0;
  const auto begin = Clock::now(), deadline = begin + budget;
  while (!ended) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd readable{.fd = ends[0], .events = POLLIN, .revents = 0};
    std::array<char, 4096> buffer{};
    if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) <= 0) break;
    const ssize_t count = ::read(ends[0], buffer.data(), buffer.size());
    ended = count <= 0;
    if (!ended) text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  budget -= Clock::now() - begin;
  if (error != 0) return "";
  if (!ended) ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return ended ? text : "";
}

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 ? name.get() : symbol;
}

/// Returns the source places of `addresses`, which are all in `object`; an address may have several, those of inlined
/// functions first. Without addr2line, returns the exported symbols of `calls`.
std::vector<SourcePlace> places_of(const CodeObject& object, std::span<const CodeObject> calls,
                                   std::span<const void* const> addresses) {
  std::vector<std::string> command = {kAddr2line, "-f", "-C", "-i", "-e", object.path};
  for (const void* address : addresses)
    command.push_back(fmt::format("{:#x}", reinterpret_cast<std::uintptr_t>(address) - object.bias));
  const std::vector<std::string> lines = split_lines(output_of(std::move(command), known().budget));
  std::vector<SourcePlace> places;
  for (std::size_t i = 0; i + 1 < lines.size(); i += 2) {
    const std::string& function = lines[i];
    const std::string position = lines[i + 1].substr(0, lines[i + 1].find(" ("));  // without "(discriminator 3)"
    const std::size_t colon = position.rfind(':');
    SourcePlace place{.function = function == "??" ? "" : function};
    if (!position.starts_with("??") && colon != position.npos) {
      place.file = std::filesystem::path(position.substr(0, colon)).lexically_normal().string();
      place.line = std::atoi(position.c_str() + colon + 1);
      if (place.line == 0) place.file.clear();
    }
    places.push_back(std::move(place));
  }
  if (places.empty())
    for (const CodeObject& call : calls) places.push_back({.function = demangled(call.symbol)});
  return places;
}

/// True for libraries of the system, such as libc.
bool is_system_library(const CodeObject& object) {
  return !object.is_program && (object.path.starts_with("/lib") || object.path.starts_with("/usr/lib"));
}

/// True for a header of Binade's or of the system: "/usr/include/binade/autograd/apply.h".
bool is_library_file(const std::string& file) {
  if (file.starts_with("/usr/include/") || file.starts_with("/usr/lib/")) return true;
  if (!file.ends_with(".h")) return false;
  constexpr std::array<std::string_view, 8> kFolders = {"core", "autograd", "nn", "optim", "io", "cuda", "amp", "run"};
  return std::ranges::any_of(kFolders, [&](std::string_view folder) {
    return file.find(fmt::format("binade/{}/", folder)) != file.npos;
  });
}

/// True for a function of Binade's or of the standard library, by its name.
bool is_library_function(const std::string& function) {
  if (function.starts_with("binade::examples::")) return false;
  return function.starts_with("binade::") || function.find("std::_Function_handler") != function.npos ||
         function.starts_with("std::") || function.starts_with("__");
}

/// Returns the name of a function without its parameters.
std::string short_name(const std::string& function) {
  if (const std::size_t lambda = function.find("::{lambda"); lambda != function.npos)
    return "a lambda in " + short_name(function.substr(0, lambda));
  return function.substr(0, function.find('('));
}

std::optional<SourcePlace> find_user_place(const CallStack& stack) {
  const std::optional<CodeObject> own = object_of(reinterpret_cast<const void*>(&capture_call_stack));
  const bool is_linked_in = own && own->is_program;  // a static library: its functions are recognized by their names
  for (std::size_t begin = 0, end = 0; own && begin < stack.size(); begin = end) {
    std::vector<CodeObject> calls;  // successive calls in the same object
    std::vector<const void*> addresses;
    for (; end < stack.size(); ++end) {
      const auto after_call = reinterpret_cast<std::uintptr_t>(stack[end]);
      const void* call = reinterpret_cast<const void*>(after_call - 1);  // as an integer: null - 1 is undefined
      std::optional<CodeObject> object = object_of(call);
      if (!object || (!calls.empty() && object->base != calls.front().base)) break;
      calls.push_back(*std::move(object));
      addresses.push_back(call);
    }
    if (calls.empty()) ++end;
    if (calls.empty() || is_system_library(calls.front()) || (!is_linked_in && calls.front().base == own->base))
      continue;
    for (SourcePlace& place : places_of(calls.front(), calls, addresses)) {
      if (place.function.empty() && place.file.empty()) continue;
      const bool by_name = is_linked_in || place.file.empty();
      if (by_name ? is_library_function(place.function) : is_library_file(place.file)) continue;
      place.function = short_name(place.function);
      return place;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string SourcePlace::text() const {
  const std::string position = file.empty() ? "" : fmt::format("{}:{}", file, line);
  if (function.empty() || position.empty()) return function + position;
  return fmt::format("{} ({})", function, position);
}

CallStack capture_call_stack() {
  CallStack stack(64);
  stack.resize(static_cast<std::size_t>(::backtrace(stack.data(), static_cast<int>(stack.size()))));
  return stack;
}

std::optional<SourcePlace> user_place(const CallStack& stack) {
  const std::lock_guard lock(known().mutex);
  const auto [entry, inserted] = known().places.try_emplace(stack);
  if (inserted) entry->second = find_user_place(stack);
  return entry->second;
}

}  // namespace binade::amp
