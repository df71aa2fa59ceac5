// threads_tests [--models COUNT]: tests of the guarantees in docs/threads.md. The long run uses --models 10000.

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "tests/threads/count.h"

namespace {
int g_models = 140;
}

int binade::test::fresh_models() { return g_models; }

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; ++i)
    if (std::string_view(argv[i]) == "--models") g_models = std::atoi(argv[i + 1]);
  return RUN_ALL_TESTS();
}
