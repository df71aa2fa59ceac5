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

/// Draws `count` cases from `seed`, spread evenly over the families whose name contains `name`. A case depends only on
/// the seed, its family and its number within the family.
std::vector<Case> draw_cases(const std::vector<Family>& families, std::uint64_t seed, std::int64_t count,
                             const std::string& name = "");

/// The outcome of a training run with a fault.
struct Run {
  std::vector<amp::StepResult> attempts{};
  std::int64_t committed = 0;
  std::string error{};    ///< message of the error that ended it early; empty: none
  double final_loss = 0;  ///< mean over held-out samples after kSteps updates; NaN if it ended early
  double seconds = 0;
};
Run train(const Spot& spot, const Plan& plan);

/// The pre-flight report of a program whose first batch is the one with the marked sample.
amp::PreflightReport preflight(const Spot& spot, const Plan& plan);

/// Final losses of runs without a fault, computed on first use.
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
  bool hash = true;  ///< true: no aborted attempt changed the hash of the state
  std::int64_t replays = 0;
  std::string found{};        ///< place, value and sample as text
  std::string found_cause{};  ///< "" without an incident. If the card accepts the cause, the first accepted one
  bool recovered = false;
  std::string remedy{};  ///< of the first incident; "stop" if the run ended early
  bool right_remedy = false;
  double final_loss = 0, control_loss = 0, seconds = 0;
  std::string error{};

  bool sample_judged() const { return card.incident && card.judge_sample; }
  std::string planted_cause() const { return card.incident ? std::string(name_of(card.causes.front())) : ""; }
};
Score judge(const Case& c, Controls& controls);

}  // namespace binade::faults
