#pragma once

#include <string>
#include <utility>
#include <vector>

#include "binade/amp/loss_scaler.h"
#include "binade/amp/preflight/finding.h"
#include "binade/amp/preflight/survey.h"
#include "binade/core/precision.h"
#include "binade/optim/gradient_scan.h"
#include "binade/optim/optimizer.h"

namespace binade::amp {

/// The input of all rules.
struct Inspection {
  const Survey& survey;
  const PrecisionPolicy& policy;
  optim::Optimizer& optimizer;
  const LossScaleOptions& loss_scale;
  double scale = 1;            ///< initial loss scale of the run
  double lr = 0;               ///< highest learning rate of the schedule
  double ema_decay = 0;        ///< decay of the averaged weights; 0: there are none
  bool backward = false;       ///< true if backward ran; otherwise the members below have no meaning
  double measured_at = 1;      ///< loss scale of backward: `scale`, or a lower one if gradients overflowed
  optim::GradientScan scan{};  ///< magnitudes of the gradients
};

using Findings = std::vector<PreflightFinding>;

/// A rule adds its findings of one kind of risk.
using Rule = void (*)(const Inspection&, Findings&);

void find_singularities(const Inspection& inspection, Findings& findings);    ///< log of 0, division by 0
void find_vanished_eps(const Inspection& inspection, Findings& findings);     ///< eps that rounds to 0
void find_mask_constants(const Inspection& inspection, Findings& findings);   ///< mask constants that become -inf
void find_masked_rows(const Inspection& inspection, Findings& findings);      ///< softmax rows without a visible entry
void find_long_sums(const Inspection& inspection, Findings& findings);        ///< sums beyond a 16-bit range
void find_little_headroom(const Inspection& inspection, Findings& findings);  ///< results near the end of their range
void find_bad_data(const Inspection& inspection, Findings& findings);         ///< bad values, targets and labels
void find_non_finite(const Inspection& inspection, Findings& findings);       ///< failures that no other rule explains
void find_idle_updates(const Inspection& inspection, Findings& findings);     ///< optimizer settings that underflow
void find_unfit_scale(const Inspection& inspection, Findings& findings);      ///< loss scales too high or too low

/// Returns a trigger that sets all elements of a tensor to one value.
inline Trigger value_trigger(std::string tensor, double value, DType dtype, double operand, std::string chain) {
  return {std::move(tensor), {value}, dtype, operand, std::move(chain)};
}

/// Returns a finding about `op`, without its texts.
PreflightFinding finding_at(const SurveyedOp& op, std::string rule, Severity severity);
/// True if there is a finding at `op`.
bool has_finding(const Findings& findings, const SurveyedOp& op);

}  // namespace binade::amp
