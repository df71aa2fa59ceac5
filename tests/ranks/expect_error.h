#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "tests/error_text.h"

namespace binade::test {

/// Expects that `f` throws an E whose text contains all of `parts`.
template <class E, class F>
void expect_error(F&& f, std::initializer_list<const char*> parts) {
  const std::string text = error_of<E>(f);
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in: " << text;
}

}  // namespace binade::test
