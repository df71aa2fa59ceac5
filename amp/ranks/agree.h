#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "binade/core/communicator.h"

namespace binade::amp {

/// Tells the other ranks whether this one failed in `what`. `failure`: the error message; empty if it did not fail.
/// Throws RankError with the message of the first other rank that failed.
void exchange_failures(Communicator& ranks, const std::string& failure, std::string_view what);

/// Calls `f` on every rank. If it throws on one, all throw: that rank its own exception, the others a RankError with
/// its message. Without this, the others would continue and wait for that rank.
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
    } catch (const RankError&) {  // another rank failed too; this one throws its own error
    }
    throw;
  }
  exchange_failures(ranks, "", what);
}

}  // namespace binade::amp
