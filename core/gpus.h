#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binade/core/backend.h"
#include "binade/core/observation.h"
#include "binade/core/scope.h"

/// Functions of GPUs that core/ needs. They are implemented in cuda/gpu.cpp, so this is the only place where core/
/// depends on a folder above it. The CUDA module is loaded at run time.
namespace binade::gpus {

/// Returns the number of GPUs. If it is 0, why_none() has the reason.
int count();
/// Returns why there is no GPU, such as "no NVIDIA driver (libcuda.so.1) was found", or an empty text if there is one.
std::string why_none();
/// Returns the backend of GPU `index`. The first call opens the GPU and fills the table of CUDA kernels. A process uses
/// one GPU. Throws DeviceError with what is missing.
Backend& open(int index);
/// Returns the total memory of the open GPU, or 0 if no GPU is open.
std::size_t memory_bytes();
/// Returns names and versions of the software that the open GPU uses, in the order for reports: {"cuda", "13.0"},
/// {"driver", "13.0"}, {"cublaslt", "13.1.0"}, {"cudnn", "9.19.0"}. If the version found differs from the one that
/// Binade was built with, the text is "FOUND (built with OTHER)". Empty without a GPU.
std::vector<std::pair<std::string, std::string>> versions();
/// Returns the algorithms that were chosen so far in the libraries of the open GPU: for each library a line with its
/// name, version and device, then one line per choice, in an order that depends on the choices alone. Empty if there
/// are none.
std::string plans();
/// Replaces the chosen algorithms by those in `text`, a result of plans(). Lines for another device or library version
/// are ignored. Returns the number of choices used, 0 without a GPU.
int use_plans(std::string_view text);
/// Rules by which algorithms of GPU libraries are chosen.
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
/// Sets the rules for choices from now on. Earlier choices stay, except those of convolutions and attention if
/// `deterministic` changes. Choices of use_plans() take precedence over the rules.
void choose_plans(const PlanRules& rules);
/// While it lives, no GPU library computes anything for this thread: Binade's own kernels do, and the keys of the
/// library plans that would have been used are recorded.
class OwnKernels : NonCopyable {
 public:
  OwnKernels() noexcept;
  ~OwnKernels();
  /// Returns the keys that were recorded since the last call, in order of their first use. Empty without a GPU.
  static std::vector<std::string> take_keys();

 private:
  bool previous_;
};
/// While it lives, Binade's own kernels compute these keys of library plans.
class SuspendedPlans : NonCopyable {
 public:
  explicit SuspendedPlans(std::vector<std::string> keys);
  ~SuspendedPlans();
};
/// Lets Binade's own kernels compute these keys from now on, because the plans compute wrong results (decision 0063).
/// The keys are added to the file MACHINE.quarantine.txt beside that of timed plans (PlanRules), and apply in every
/// process that opens the GPU later, until the library's version changes. plans() and use_plans() pass them on too.
/// Returns the reason if the file cannot be written; otherwise an empty text.
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
