#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/crash/scarce_memory.h"

namespace binade::crash {

/// Bugs that a training program can have on purpose, which `kills` must detect.
enum class SeededBug {
  kNone,
  kAcknowledgesTooEarly,  ///< acknowledges a commit when it begins to write the file
  kForgetsTheNewest,      ///< a resume loads the checkpoint before the newest and deletes the newest
  kSwapsABatch            ///< the first batch after a resume is a wrong one
};

/// A small training program as a user would write it: fp16, two micro-batches, a loader, checkpoints, an evaluation.
struct Training {
  std::string folder{};
  std::int64_t steps = 30;
  std::int64_t checkpoint_every = 1;
  int acknowledge = -1;  ///< a pipe to which the step of each commit is written when it is on the disk
  int started = -1;      ///< a pipe to which one byte is written when the first step begins
  int kill_before = -1;  ///< SIGKILL before this call that changes the disk, counted from 0
  int kill_after = -1;   ///< SIGKILL after this call
  std::optional<Shortage> shortage{};
  SeededBug bug = SeededBug::kNone;
};

/// Begins or resumes the run and returns the exit code of the program.
int train(const Training& training);

/// Forks a child that runs train() and exits with its exit code. Returns the pid.
int start_training(const Training& training);

}  // namespace binade::crash
