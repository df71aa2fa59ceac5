#pragma once

#include <memory>

#include "binade/core/communicator.h"

/// How a program finds the ranks with which it was started. Implemented in mpi/launcher.cpp, so that core/ depends on
/// no folder above it. The MPI module is loaded at run time, and only if a launcher has started several processes.
namespace binade {

/// Returns the number of processes that the launcher of this one (mpirun, srun) has started for the program; 1 without
/// a launcher. Reads environment variables only.
int launched_ranks();

/// Returns how many of these processes run on this machine, and the number of this one among them, from 0; 1 and 0
/// without a launcher or if it does not say.
struct LocalRank {
  int rank = 0, ranks = 1;
};
LocalRank local_rank();

/// Returns the connection with the other processes that the launcher has started. Without a launcher, or if it has
/// started one process, returns alone() and opens no engine. Call it once, before other threads are started, and keep
/// the result until the program ends: MPI is closed with it.
///
///     amp::Trainer trainer(runtime, model, optimizer, {.accumulate = 8, .ranks = ranks_from_launcher()});
///
/// Throws ArgumentError if Binade was built without MPI or the module cannot be opened, and RankError if MPI fails.
std::shared_ptr<Communicator> ranks_from_launcher();

}  // namespace binade
