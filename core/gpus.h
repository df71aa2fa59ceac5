#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/core/backend.h"
#include "binade/core/observation.h"
#include "binade/core/scope.h"

/// Functions of GPUs that core/ needs. They are declared here and implemented in cuda/gpu.cpp, so that core/ includes
/// no header of cuda/. The CUDA module is loaded at run time.
namespace binade::gpus {

/// Returns the number of GPUs. If it is 0, why_none() has the reason.
int count();
/// Returns why there is no GPU, such as "no NVIDIA driver (libcuda.so.1) was found", or an empty text if there is one.
std::string why_none();
/// Returns the backend of GPU `index`. The first call opens the GPU and fills the table of CUDA kernels. A process uses
/// one GPU. Throws DeviceError if the GPU is not available; the text says why.
Backend& open(int index);
/// Returns the total memory of the open GPU, or 0 if no GPU is open.
std::size_t memory_bytes();
/// Returns names and versions of the software that the open GPU uses, in the order in which reports list them: {"cuda",
/// "13.0"}, {"driver", "13.0"}, {"cublaslt", "13.1.0"}, {"cudnn", "9.19.0"}. If the version found differs from the one
/// that Binade was built with, the text is "FOUND (built with OTHER)". Empty without a GPU.
std::vector<std::pair<std::string, std::string>> versions();
/// Returns the library plans that were chosen so far on the open GPU, as text: for each library a line with its
/// name, version and device, then one line per plan, in an order that depends on the plans alone. Empty if there are
/// none.
std::string plans();
/// Replaces the chosen plans by those in `text`, a result of plans(). Lines for another device or library version are
/// ignored. Returns the number of plans used, 0 without a GPU.
int use_plans(std::string_view text);
/// Rules by which library plans are chosen.
struct PlanRules {
  /// True if the first call with each key times the candidates and takes the fastest; false if it takes the
  /// library's first candidate. Timed plans are stored per machine (GPU, driver and versions) in
  /// $XDG_CACHE_HOME/binade/plans, else ~/.cache/binade/plans, and reused, so that fresh runs compute the same bits.
  /// If that folder cannot be written, nothing is timed. A process spends at most $BINADE_PLANS_SECONDS seconds on
  /// timing, 6 by default.
  bool timed = true;
  /// True if only algorithms are used that give the same bits every time. False allows others for convolutions.
  bool deterministic = true;
};
/// Sets the rules for later choices. Earlier plans stay, except those of convolutions and attention if `deterministic`
/// changes. Plans from use_plans() take precedence over the rules.
void choose_plans(const PlanRules& rules);
/// During its lifetime, Binade's own kernels compute everything on this thread that a GPU library would compute, and
/// the keys of the library plans that they replace are recorded.
class OwnKernels : NonCopyable {
 public:
  OwnKernels() noexcept;
  ~OwnKernels();
  /// Returns the keys that were recorded since the last call, in order of their first use. Empty without a GPU.
  static std::vector<std::string> take_keys();

 private:
  bool previous_;
};
/// During its lifetime, Binade's own kernels compute the operations with these keys of library plans.
class SuspendedPlans : NonCopyable {
 public:
  explicit SuspendedPlans(std::vector<std::string> keys);
  ~SuspendedPlans();
};
/// Makes Binade's own kernels compute the operations with these keys from now on, because the library plans give wrong
/// results (decision 0063). The keys are added to the file MACHINE.quarantine.txt in the folder of timed plans
/// (PlanRules). They apply in every process that opens the GPU later, until the library's version changes. plans()
/// lists them, and use_plans() applies them. Returns the reason if the file cannot be written; otherwise an empty text.
std::string quarantine_plans(const std::vector<std::string>& keys);
/// Returns the keys that Binade's own kernels compute because of quarantine_plans() or use_plans(), in order.
std::vector<std::string> quarantined_plans();
/// Returns the name and version of the library that computes a key: "cudnn 9.19.0".
std::string library_of_plan(std::string_view key);
/// Returns the line of plans() with this key, or the key if there is none.
std::string line_of_plan(std::string_view key);
/// Returns one line for each operation that a GPU library did not support, so that a kernel of Binade or another
/// algorithm was used, in order of occurrence. Later calls return the same lines and new ones. Empty if there are none.
std::string notes();
/// Waits until the open GPU reaches `mark` (Backend::mark), copies `bytes` of its memory to the host, and waits for the
/// copy. The copy runs in parallel with work that other threads submit.
void fetch(void* to, const void* from, std::size_t bytes, std::uint64_t mark);
/// Ends the current observation of the open GPU, begins a new one, and returns the number of the ended one; 0 if no
/// kernel ran in it.
std::int64_t next_observation();
/// Returns the observation with this number. Waits if it is not yet on the host. About 16,000 observations are kept.
Observation observation(std::int64_t number);

}  // namespace binade::gpus
