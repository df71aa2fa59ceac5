#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/crash/scarce_memory.h"

namespace binade::crash {

/// What a training program may get wrong about its checkpoints, on purpose: `kills` must notice.
enum class Lie {
  kNone,
  kAcknowledgesTooEarly,  ///< a commit is told when its file is begun
  kForgetsTheNewest,      ///< a resume takes the checkpoint before the newest, and the newest is gone
  kSwapsABatch            ///< the first batch after a resume is not the one that was due
};

/// A whole small training program, as a user writes it: fp16, two micro-batches, a loader, checkpoints, an evaluation.
struct Training {
  std::string folder{};
  std::int64_t steps = 30;
  std::int64_t checkpoint_every = 1;
  int acknowledge = -1;  ///< a pipe that each commit's step is written to, once it is on the disk
  int started = -1;      ///< a pipe that one byte is written to when the first step begins
  int kill_before = -1;  ///< SIGKILL before this call that changes the disk, counted from 0
  int kill_after = -1;   ///< the same, just after it
  std::optional<Shortage> shortage{};
  Lie lie = Lie::kNone;
};

/// Begins the run or goes on with it; returns the exit code of such a program.
int train(const Training& training);

/// train() in a child process that starts here and ends with its exit code. Returns the pid.
int start_training(const Training& training);

}  // namespace binade::crash
