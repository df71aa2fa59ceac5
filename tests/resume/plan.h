#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/lab/lab.h"
#include "tests/resume/families.h"

namespace binade::resume {

using lab::Draws;

/// A fault in a run, so that interruptions happen while a remedy is active.
enum class Fault {
  kNone,
  kBadSample,     ///< a sample that makes the loss NaN: it is quarantined, or its batch skipped
  kLargeScale,    ///< the loss scale starts far too high, falls, and grows every few steps
  kLargeProduct,  ///< a product overflows f16 for some steps: the op is promoted, and demoted later
};
const char* name_of(Fault fault);

/// All settings of a run that determine its bits; drawn from (seed, family, precision, optimizer).
struct Plan {
  const FamilyKind* family = nullptr;
  std::string precision{}, optimizer{};
  std::uint64_t seed = 0;  ///< of initial weights, dropout and the order of samples
  std::int64_t steps = 0, accumulate = 1, batch = 0, samples = 0, eval_every = 0;
  io::SampleOrder order = io::SampleOrder::kShuffled;
  optim::Schedule schedule{};
  std::string clip{};  ///< "norm", "value", "adaptive" or ""
  optim::EmaOptions ema{};
  bool averages = false, nesterov = false, bf16_moments = false;
  Fault fault = Fault::kNone;
  bool skips = false;  ///< OnNan::kSkip instead of remediation
  std::int64_t fault_at = 0;

  std::string to_string() const;
};

const std::vector<std::string>& precisions();  ///< fp32, fp16, bf16, pure-bf16
const std::vector<std::string>& optimizers();  ///< sgd, adam, adamw, lion

/// A plan for every family x precision x optimizer; the other settings are random.
std::vector<Plan> draw_plans(std::uint64_t seed);

/// How a session of a run ends.
enum class Cut {
  kDeath,               ///< the process is killed; everything after its newest checkpoint is lost
  kSignal,              ///< SIGTERM between two calls of step()
  kSignalInStep,        ///< SIGTERM while the loss is computed
  kSignalInEvaluation,  ///< SIGTERM during an evaluation, which is abandoned
};

/// The part of a run that one process makes. Its settings may differ between sessions; they do not affect the bits.
struct Session {
  int threads = 1;
  std::int64_t checkpoint_every = 0;
  int keep = 5, prefetch = 2;
  Cut cut = Cut::kDeath;
  std::int64_t calls = -1;  ///< number of step() calls after or in which it is cut; -1: none, to the end

  std::string to_string() const;
};

/// Two or three sessions, the last to the end of the run.
std::vector<Session> draw_sessions(const Plan& plan, Draws& draws);

}  // namespace binade::resume
