#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/lab/lab.h"
#include "tests/resume/families.h"

namespace binade::resume {

using lab::Draws;

/// What goes wrong in a run, so that a remedy is under way where it is cut.
enum class Trouble {
  kNone,
  kBadSample,     ///< a sample that makes the loss NaN: quarantined by the ladder, or its batch skipped
  kLargeScale,    ///< the loss scale begins far too high, falls, and grows back every few steps
  kLargeProduct,  ///< a product leaves f16 for some steps: the op is promoted, and demoted later
};
const char* name_of(Trouble trouble);

/// Everything about one run that decides its bits. Drawn from (seed, family, precision, optimizer).
struct Plan {
  const FamilyKind* family = nullptr;
  std::string precision{}, optimizer{};
  std::uint64_t seed = 0;  ///< of initial weights, dropout and order
  std::int64_t steps = 0, accumulate = 1, batch = 0, samples = 0, eval_every = 0;
  io::SampleOrder order = io::SampleOrder::kShuffled;
  optim::Schedule schedule{};
  std::string clip{};  ///< "norm", "value", "adaptive" or ""
  optim::EmaOptions ema{};
  bool averages = false, nesterov = false, half_moments = false;
  Trouble trouble = Trouble::kNone;
  bool skips = false;  ///< OnNan::kSkip instead of the ladder
  std::int64_t trouble_at = 0;

  std::string to_string() const;
};

const std::vector<std::string>& precisions();  ///< fp32, fp16, bf16, pure-bf16
const std::vector<std::string>& optimizers();  ///< sgd, adam, adamw, lion

/// Every family x precision x optimizer once, the rest drawn.
std::vector<Plan> draw_plans(std::uint64_t seed);

/// How a life of a run ends.
enum class Cut {
  kDeath,               ///< the process is gone: what its newest checkpoint does not know is lost
  kSignal,              ///< SIGTERM between two calls of step()
  kSignalInStep,        ///< SIGTERM while the loss is computed
  kSignalInEvaluation,  ///< SIGTERM while an evaluation runs, which is given up
};

/// One process's part of a run: what may differ from life to life without changing a bit.
struct Life {
  int threads = 1;
  std::int64_t checkpoint_every = 0;
  int keep = 5, prefetch = 2;
  Cut cut = Cut::kDeath;
  std::int64_t calls = -1;  ///< cut in or after so many calls of step() in this life; -1: to the end of the run

  std::string to_string() const;
};

/// One to three lives, the last to the end.
std::vector<Life> draw_lives(const Plan& plan, Draws& draws);

}  // namespace binade::resume
