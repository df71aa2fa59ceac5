#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "binade/core/communicator.h"

namespace binade {

/// Settings of run_thread_ranks().
struct ThreadRanksOptions {
  std::chrono::duration<double> deadline = std::chrono::seconds(300);  ///< for each call of a communicator
  /// If not 0: ranks pause for up to 2 ms before and after each exchange, for random times drawn with this seed.
  std::uint64_t delays = 0;
};

/// Runs `body` on `ranks` threads of this process, each of which gets its own communicator, and waits for all. It is
/// meant for tests and sanitizers, because threads share one allocator, and a crash of one ends all. Each thread makes
/// its own Runtime, model and trainer.
///
/// If bodies throw, the other ranks get a RankError in their next exchange. When all threads have ended, rethrows the
/// exception of the lowest rank that threw anything but a RankError, or else the RankError of the lowest rank.
void run_thread_ranks(int ranks, const std::function<void(const std::shared_ptr<Communicator>& communicator)>& body,
                      const ThreadRanksOptions& options = {});

}  // namespace binade
