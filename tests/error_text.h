#pragma once

#include <string>

#include "binade/core/error.h"

namespace binade::test {

/// Returns the text of the E that `f` throws, or "no error" if it throws none.
template <class E = Error, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace binade::test
