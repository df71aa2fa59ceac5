#pragma once

#include "tests/lab/lab.h"

namespace binade::resume {

using lab::Assignment;
using lab::Findings;

/// For each cell (family x precision x optimizer), with random interruptions: a run that is interrupted, with another
/// number of threads and interval between checkpoints in each session, has the final bits and the log of an
/// uninterrupted run.
void cut_and_resumed(const Assignment&, Findings&);
/// Every plan has the same results with 1, 2, 4 and 8 threads, and with a save after every step or none.
void threads_and_saves(const Assignment&, Findings&);
/// Checks the matrix itself: for each part of the state, a resume does not restore it, and the comparison must fail.
void forgetful(const Assignment&, Findings&);

}  // namespace binade::resume
