#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/core/backend.h"
#include "binade/core/observation.h"

/// Queries of `core/` about GPUs. Defined in cuda/gpu.cpp, the only place where the library depends on a higher layer:
/// devices are named here, and who serves them is found at run time.
namespace binade::gpus {

/// How many there are; 0 with the reason in why_none().
int count();
/// "no NVIDIA driver (libcuda.so.1) was found", ...; empty where there is one.
std::string why_none();
/// The backend of GPU `index`, opened at the first call, with which every CUDA kernel slot is filled. One GPU serves a
/// process. Throws DeviceError saying what is missing.
Backend& open(int index);
/// The memory of the open GPU, in use or not; 0 without one.
std::size_t memory_bytes();
/// What the open GPU works with, in the order of a report: {"cuda", "13.0"}, {"driver", "13.0"}, {"cublaslt",
/// "13.1.0"},
/// {"cudnn", "9.19.0"}; "found (built with ...)" where two differ. Empty without one.
std::vector<std::pair<std::string, std::string>> versions();
/// The algorithms that libraries of the open GPU have chosen so far: for each library a line that names it, its version
/// and the device, then a line for each choice, in order: the same choices give the same text. Empty without any.
std::string plans();
/// Takes such choices over, in the place of those made before; lines that fit neither this device nor its libraries are
/// passed by. Returns how many were taken; 0 without a GPU.
int use_plans(std::string_view text);
/// How libraries' algorithms are chosen from now on; those that were chosen stay, but for convolutions and attention
/// where `deterministic` changes. use_plans() goes before it.
struct PlanRules {
  /// The fastest by time, of each kind of product that is new, before it is first computed; the first that a library
  /// names where not. What was chosen by time is kept for this machine (GPU, driver and versions) and taken from then
  /// on, so that fresh runs compute the same bits: in $XDG_CACHE_HOME/binade/plans, else ~/.cache/binade/plans. Where
  /// that cannot be written nothing is timed. A process spends $BINADE_PLANS_SECONDS on it, else 6.
  bool timed = true;
  /// Algorithms that give the same bits every time, alone. Without, convolutions may be computed by others.
  bool deterministic = true;
};
void choose_plans(const PlanRules& rules);
/// What libraries could not do, so that kernels of ours or another choice took its place: a line each, in the order in
/// which it was met. Lines are added, never changed. Empty without any.
std::string notes();
/// Copies `bytes` of the open GPU's memory to the host as they are when the device has come to `mark` (Backend::mark),
/// beside what other threads send it meanwhile. Waits for the mark and the copy.
void fetch(void* to, const void* from, std::size_t bytes, std::uint64_t mark);
/// The number under which kernels of the open GPU have observed until now, and a fresh one for those to come; 0 where
/// none ran.
std::int64_t next_observation();
/// What was observed under a number. Waits where it has not been brought to the host. Kept for some 16,000 numbers.
Observation observation(std::int64_t number);

}  // namespace binade::gpus
