#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "binade/core/communicator.h"

namespace binade::amp {

/// Tells the other ranks whether this one's part of `what` failed; an empty text: it did not. Throws RankError with the
/// text of the first rank that failed, except on that rank itself.
void exchange_failures(Communicator& ranks, const std::string& failure, std::string_view what);

/// Calls `f`. If it throws on any rank, throws on all: on the others a RankError with its text. Otherwise the others
/// would go on and wait in vain.
template <std::invocable F>
void agree(Communicator& ranks, std::string_view what, F&& f) {
  if (ranks.alone()) {
    f();
    return;
  }
  try {
    f();
  } catch (const std::exception& error) {
    try {
      exchange_failures(ranks, *error.what() == 0 ? "an exception" : error.what(), what);
    } catch (const RankError&) {  // of another rank, which failed too
    }
    throw;
  }
  exchange_failures(ranks, "", what);
}

}  // namespace binade::amp
