#include "binade/core/kernels/dispatch.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "binade/core/error.h"

namespace binade::cpu {
namespace {

using Levels = std::vector<std::string_view>;

TEST(KernelDispatch, SelectsTheHighestLevelExceptV4bf16OutsideAmd) {
  for (const bool amd : {false, true}) {
    EXPECT_EQ(preferred_isa({"generic"}, amd), "generic");
    EXPECT_EQ(preferred_isa({"generic", "v3"}, amd), "v3");
    EXPECT_EQ(preferred_isa({"generic", "v3", "v4"}, amd), "v4");
    EXPECT_EQ(preferred_isa({"generic", "v4"}, amd), "v4") << "a build may leave levels out";
  }
  EXPECT_EQ(preferred_isa({"generic", "v3", "v4", "v4bf16"}, true), "v4bf16");
  EXPECT_EQ(preferred_isa({"generic", "v3", "v4", "v4bf16"}, false), "v4") << "vdpbf16ps at a quarter of FMA's rate";
  EXPECT_EQ(preferred_isa({"generic", "v3", "v4", "v4bf16", "v4amx"}, false), "v4amx");
  EXPECT_EQ(preferred_isa({"generic", "v4amx"}, false), "v4amx");
}

/// v4bf16 is v4 plus an instruction for bf16 products. It is preferred to v3 (256-bit vectors) also if v4 is not built.
TEST(KernelDispatch, SelectsV4bf16IfV4IsNotBuilt) {
  for (const bool amd : {false, true}) {
    EXPECT_EQ(preferred_isa({"generic", "v3", "v4bf16"}, amd), "v4bf16");
    EXPECT_EQ(preferred_isa({"generic", "v4bf16"}, amd), "v4bf16");
    EXPECT_EQ(preferred_isa({"v4bf16"}, amd), "v4bf16");
  }
}

TEST(KernelDispatch, LevelsAreInAscendingOrderFromGeneric) {
  const Levels levels = isa_levels();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.front(), "generic");
  const Levels order = {"generic", "v3", "v4", "v4bf16", "v4amx"};
  std::size_t at = 0;
  for (const std::string_view level : levels) {
    while (at < order.size() && order[at] != level) ++at;
    EXPECT_LT(at, order.size()) << level << " stands after a higher level, or is unknown";
  }
}

TEST(KernelDispatch, ASelectedLevelIsUsed) {
  const std::string_view chosen = level().isa;
  for (const std::string_view level : isa_levels()) {
    select_isa(level);
    EXPECT_EQ(cpu::level().isa, level);
    EXPECT_EQ(cpu::level().multiplies_bf16, level == "v4bf16" || level == "v4amx") << level;
  }
  select_isa(chosen);
}

TEST(KernelDispatch, AnUnknownOrUnsupportedLevelIsAnErrorThatListsTheOthers) {
  const std::string_view chosen = level().isa;
  try {
    select_isa("v9");
    FAIL() << "wanted ArgumentError";
  } catch (const ArgumentError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("'v9'"), std::string::npos) << text;
    for (const std::string_view level : isa_levels()) EXPECT_NE(text.find(level), std::string::npos) << text;
  }
  EXPECT_EQ(cpu::level().isa, chosen) << "a refused switch changes nothing";
}

/// Runs in a child process, because a process selects its level once.
TEST(KernelDispatchDeathTest, TheEnvironmentVariableSelectsTheLevel) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const std::string_view level : isa_levels())
    EXPECT_EXIT(
        {
          setenv("BINADE_ISA", std::string(level).c_str(), 1);
          std::exit(cpu::level().isa == level ? 0 : 1);
        },
        testing::ExitedWithCode(0), "")
        << level;
  EXPECT_EXIT(
      {
        setenv("BINADE_ISA", "v9", 1);
        try {
          level();
        } catch (const ArgumentError& e) {
          std::fputs(e.what(), stderr);
          std::exit(e.exit_code());
        }
      },
      testing::ExitedWithCode(20), "BINADE_ISA: wanted a level that is built.*generic.*'v9'");
}

}  // namespace
}  // namespace binade::cpu
