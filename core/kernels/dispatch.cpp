#include "binade/core/kernels/dispatch.h"

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <cstdlib>
#include <string>

#include "binade/core/error.h"
#include "core/build_config.h"

namespace binade::cpu {

// Defined by core/kernels/level.cpp, once per level that is built.
namespace generic {
Level loops_of_level();
}
namespace v3 {
Level loops_of_level();
}
namespace v4 {
Level loops_of_level();
}
namespace v4bf16 {
Level loops_of_level();
}
namespace v4amx {
Level loops_of_level();
}

namespace {

/// Requests the AMX tile registers from Linux; their 8 KiB enlarge the signal frames of the process.
[[maybe_unused]] bool tile_registers_granted() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

std::vector<Level> usable_tables() {
  std::vector<Level> usable;
  [[maybe_unused]] const auto add = [&usable](bool supported, std::string_view level, Level (*table)()) {
    if (!supported) return;
    usable.push_back(table());
    usable.back().isa = level;
  };
#if defined(__x86_64__)
  // A level needs every instruction set that its sources are compiled with, and those that the compiler's flags imply.
  [[maybe_unused]] const bool has_v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                       __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
                                       __builtin_cpu_supports("bmi2");
  [[maybe_unused]] const bool has_v4 = has_v3 && __builtin_cpu_supports("avx512f") &&
                                       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                                       __builtin_cpu_supports("avx512dq");
#endif
#if defined(BINADE_HAVE_ISA_GENERIC)
  add(true, "generic", &generic::loops_of_level);
#endif
#if defined(BINADE_HAVE_ISA_V3)
  add(has_v3, "v3", &v3::loops_of_level);
#endif
#if defined(BINADE_HAVE_ISA_V4)
  add(has_v4, "v4", &v4::loops_of_level);
#endif
#if defined(BINADE_HAVE_ISA_V4BF16)
  add(has_v4 && __builtin_cpu_supports("avx512bf16"), "v4bf16", &v4bf16::loops_of_level);
#endif
#if defined(BINADE_HAVE_ISA_V4AMX)
  add(has_v4 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("amx-bf16") && tile_registers_granted(),
      "v4amx", &v4amx::loops_of_level);
#endif
  return usable;
}

const std::vector<Level>& tables() {
  static const std::vector<Level> all = usable_tables();
  return all;
}

const Level* find(std::string_view level) {
  for (const Level& table : tables())
    if (table.isa == level) return &table;
  std::string known;
  for (const Level& table : tables()) known += (known.empty() ? "" : ", ") + std::string(table.isa);
  throw ArgumentError(fmt::format(
      "BINADE_ISA: wanted a level that is built and that this processor runs ({}), got '{}'", known, level));
}

const Level* initial() {
  const char* wanted = std::getenv("BINADE_ISA");
  if (wanted != nullptr && *wanted != '\0') return find(wanted);
#if defined(__x86_64__)
  const bool amd = __builtin_cpu_is("amd");
#else
  const bool amd = false;
#endif
  return find(preferred_isa(isa_levels(), amd));
}

std::atomic<const Level*>& selected() {
  static std::atomic<const Level*> table = initial();
  return table;
}

}  // namespace

const Level& level() { return *selected().load(std::memory_order_acquire); }

std::vector<std::string_view> isa_levels() {
  std::vector<std::string_view> levels;
  for (const Level& table : tables()) levels.push_back(table.isa);
  return levels;
}

std::string_view preferred_isa(const std::vector<std::string_view>& levels, bool amd) {
  const std::string_view best = levels.back();
  const bool has_v4 = levels.size() > 1 && levels[levels.size() - 2] == "v4";  // a build may leave levels out
  return best == "v4bf16" && has_v4 && !amd ? "v4" : best;
}

void select_isa(std::string_view level) { selected().store(find(level), std::memory_order_release); }

}  // namespace binade::cpu
