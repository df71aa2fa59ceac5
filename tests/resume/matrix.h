#pragma once

#include "tests/lab/lab.h"

namespace binade::resume {

using lab::Assignment;
using lab::Findings;

/// For each cell (family x precision x optimizer): a run that is interrupted at random ends with the bits and the log
/// of an uninterrupted run. Each of its sessions has another number of threads and another interval between
/// checkpoints.
void cut_and_resumed(const Assignment&, Findings&);
/// Every plan has the same results with 1, 2, 4 and 8 threads, and with saves after every step or no saves.
void threads_and_saves(const Assignment&, Findings&);
/// Tests the comparison itself: for each part of the state, resumes a run without this part. The comparison must fail.
void forgetful(const Assignment&, Findings&);

}  // namespace binade::resume
