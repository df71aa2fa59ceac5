#pragma once

#include "tests/lab/lab.h"

namespace binade::resume {

using lab::Assignment;
using lab::Findings;

/// Cells of family x precision x optimizer x cut points: the run that was never cut and the one that was, with other
/// numbers of threads and other intervals between checkpoints in each life, end in the same bits and wrote the same
/// log.
void cut_and_resumed(const Assignment&, Findings&);
/// Every plan at 1, 2, 4 and 8 threads, and saving after every step instead of never.
void threads_and_saves(const Assignment&, Findings&);
/// Proof that the matrix can fail: each part of the state is left out of what is restored, in turn, and every time it
/// must be noticed.
void forgetful(const Assignment&, Findings&);

}  // namespace binade::resume
