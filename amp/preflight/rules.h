#pragma once

#include <vector>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/preflight/finding.h"
#include "binade/amp/preflight/survey.h"
#include "binade/core/precision.h"
#include "binade/optim/gradient_scan.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// Everything that rules judge by.
struct Inspection {
  const Survey& survey;
  const PrecisionPolicy& policy;
  optim::Optimizer& optimizer;
  const LossScaleOptions& loss_scale;
  double scale = 1;            ///< initial loss scale of the run
  double lr = 0;               ///< the highest learning rate of the schedule
  double ema_decay = 0;        ///< 0: no averages
  bool backward = false;       ///< whether backward was run; then
  double measured_at = 1;      ///< loss scale of that backward: `scale`, or a lower one if gradients overflowed
  optim::GradientScan scan{};  ///< of its gradients
};

using Findings = std::vector<PreflightFinding>;

/// A rule adds what it finds. Each looks at one kind of place.
using Rule = void (*)(const Inspection&, Findings&);

void find_singularities(const Inspection& inspection, Findings& findings);    ///< log of 0, division by 0
void find_vanished_eps(const Inspection& inspection, Findings& findings);     ///< of norms, of a Dice loss
void find_mask_constants(const Inspection& inspection, Findings& findings);   ///< that become -inf
void find_masked_rows(const Inspection& inspection, Findings& findings);      ///< a softmax over nothing
void find_long_sums(const Inspection& inspection, Findings& findings);        ///< N terms beyond a 16-bit range
void find_little_headroom(const Inspection& inspection, Findings& findings);  ///< results near the end of their range
void find_bad_data(const Inspection& inspection, Findings& findings);      ///< values, targets and labels of the batch
void find_non_finite(const Inspection& inspection, Findings& findings);    ///< what no other rule explains
void find_idle_updates(const Inspection& inspection, Findings& findings);  ///< settings that vanish in a dtype
void find_unfit_scale(const Inspection& inspection, Findings& findings);   ///< gradients beyond or below f16's range

/// A finding at an op.
PreflightFinding finding_at(const SurveyedOp& op, std::string rule, Severity severity);
/// Whether something was found at `op` already.
bool told(const Findings& findings, const SurveyedOp& op);

}  // namespace binade::amp
