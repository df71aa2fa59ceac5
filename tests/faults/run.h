#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/faults/plan.h"

namespace binade::faults {

/// A family at a spot.
struct Case {
  const Family* family = nullptr;
  Spot spot{};
};

/// `count` cases drawn from `seed`, as many of each family as of every other; only those of families whose name holds
/// `name`. A case depends on its number and the seed alone.
std::vector<Case> draw_cases(const std::vector<Family>& families, std::uint64_t seed, std::int64_t count,
                             const std::string& name = "");

/// What a training run with a fault in it came to.
struct Run {
  std::vector<amp::StepResult> attempts{};
  std::int64_t committed = 0;
  std::string error{};    ///< the error that ended it early; empty: none
  double final_loss = 0;  ///< mean over held-out samples after kSteps updates; NaN when it ended early
  double seconds = 0;
};
Run train(const Spot& spot, const Plan& plan);

/// What the pre-flight says of a program when its first batch is the one with the marked sample.
amp::PreflightReport preflight(const Spot& spot, const Plan& plan);

/// Final losses of unharmed runs, made when first asked for.
class Controls {
 public:
  double final_loss(const Spot& spot, const Plan& plan);

 private:
  std::map<std::tuple<ModelKind, std::string, std::uint64_t, std::int64_t, bool>, double> known_;
};

/// One case judged against its card.
struct Score {
  std::string family{}, theme{};
  Spot spot{};
  Card card{};
  bool incident = false;
  bool place = false, sample = false, cause = false;
  bool wrong_but_proven = false;
  bool hash = true;  ///< the state after every aborted attempt is the one before it
  std::int64_t replays = 0;
  std::string found{};        ///< place, value and sample in words
  std::string found_cause{};  ///< "" if there was no incident; the card's first cause if it is one of the card's
  bool recovered = false;
  std::string remedy{};  ///< the first incident's; "stop" if the run ended early
  bool right_remedy = false;
  double final_loss = 0, control_loss = 0, seconds = 0;
  std::string error{};

  bool sample_judged() const { return card.incident && card.judge_sample; }
  std::string planted_cause() const { return card.incident ? std::string(name_of(card.causes.front())) : ""; }
};
Score judge(const Case& c, Controls& controls);

}  // namespace binade::faults
