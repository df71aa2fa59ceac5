#include "binade/core/program_flags.h"

#include <fmt/core.h>

#include <mutex>
#include <set>

namespace binade {
namespace {

struct Flags {
  std::mutex mutex{};
  std::set<std::string, std::less<>> names{};
};

Flags& flags() {
  static Flags all;
  return all;
}

}  // namespace

void add_program_flag(std::string name) {
  const std::lock_guard lock(flags().mutex);
  flags().names.insert(std::move(name));
}

bool has_program_flag(std::string_view name) {
  const std::lock_guard lock(flags().mutex);
  return flags().names.contains(name);
}

void clear_program_flags() {
  const std::lock_guard lock(flags().mutex);
  flags().names.clear();
}

std::string flag_or(std::string_view name, std::string_view value, std::string cpp) {
  if (!has_program_flag(name)) return cpp;
  return fmt::format("--{}{}{}", name, value.empty() ? "" : " ", value);
}

}  // namespace binade
