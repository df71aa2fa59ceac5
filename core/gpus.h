#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/core/backend.h"
#include "binade/core/observation.h"

/// GPU queries of core/. They are implemented in cuda/gpu.cpp: this is the only place where core/ depends on a higher
/// layer. The CUDA module is loaded at run time.
namespace binade::gpus {

/// Returns the number of GPUs. If it is 0, why_none() has the reason.
int count();
/// Returns why there is no GPU, such as "no NVIDIA driver (libcuda.so.1) was found", or an empty text if there is one.
std::string why_none();
/// Returns the backend of GPU `index`. The first call opens the GPU and fills the table of CUDA kernels. A process uses
/// one GPU. Throws DeviceError with what is missing.
Backend& open(int index);
/// Returns the total memory of the open GPU, or 0 without one.
std::size_t memory_bytes();
/// Returns names and versions of the software of the open GPU, in the order of a report: {"cuda", "13.0"}, {"driver",
/// "13.0"}, {"cublaslt", "13.1.0"}, {"cudnn", "9.19.0"}; "found (built with ...)" if two versions differ. Empty without
/// a GPU.
std::vector<std::pair<std::string, std::string>> versions();
/// Returns the algorithms that libraries of the open GPU have chosen so far: for each library a line with its name,
/// version and device, then one line per choice in a fixed order, so that equal choices give equal texts. Empty if
/// there are none.
std::string plans();
/// Replaces the choices of algorithms by those in `text`; lines for another device or library version are ignored.
/// Returns the number of choices used, 0 without a GPU.
int use_plans(std::string_view text);
/// How algorithms of libraries are chosen from now on. Earlier choices stay, except those of convolutions and attention
/// if `deterministic` changes. Choices of use_plans() take precedence.
struct PlanRules {
  /// True if the first use of each kind of product times the candidates and takes the fastest; false if it takes the
  /// library's first candidate. Timed choices are stored per machine (GPU, driver and versions) in
  /// $XDG_CACHE_HOME/binade/plans, else ~/.cache/binade/plans, and reused, so that fresh runs compute the same bits. If
  /// that folder cannot be written, nothing is timed. A process spends at most $BINADE_PLANS_SECONDS seconds on it, 6
  /// by default.
  bool timed = true;
  /// True if only algorithms are used that give the same bits every time. False allows others for convolutions.
  bool deterministic = true;
};
void choose_plans(const PlanRules& rules);
/// Returns what libraries could not do, so that Binade's own kernels or another algorithm were used: one line each, in
/// order of occurrence. Lines are only added. Empty if there are none.
std::string notes();
/// Copies `bytes` of the open GPU's memory to the host as they are when the device reaches `mark` (Backend::mark), in
/// parallel with work that other threads submit. Waits for the mark and the copy.
void fetch(void* to, const void* from, std::size_t bytes, std::uint64_t mark);
/// Ends the current observation of the open GPU, begins a new one, and returns the number of the ended one; 0 if no
/// kernel ran in it.
std::int64_t next_observation();
/// Returns the observation with this number. Waits if it is not yet on the host. About 16,000 observations are kept.
Observation observation(std::int64_t number);

}  // namespace binade::gpus
