#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "binade/core/host_device.h"
#include "binade/core/kernels/ctc.h"

/// The arithmetic of connectionist temporal classification, for CPU and GPU. The paths of a sample go through the
/// states blank, label 0, blank, label 1, …, blank. Each step either stays in a state, goes to the next, or goes from a
/// label over the blank to the next label, if the two labels differ.
namespace binade {

inline constexpr double kNoPath = -std::numeric_limits<double>::infinity();  ///< log of the probability 0

/// The labels of one sample and their states.
struct CtcSample {
  const std::int64_t* labels = nullptr;
  std::int64_t count = 0;  ///< number of labels
  std::int64_t blank = 0;

  BINADE_HD CtcSample(const CtcArgs& a, std::int64_t sample)
      : labels(a.targets + sample * a.width), count(a.target_lengths[sample]), blank(a.blank) {}

  BINADE_HD std::int64_t states() const { return 2 * count + 1; }
  /// Returns the class of state s.
  BINADE_HD std::int64_t label(std::int64_t s) const { return s % 2 == 0 ? blank : labels[s / 2]; }
  /// True if a path may go from state s - 2 to state s.
  BINADE_HD bool skips_to(std::int64_t s) const { return s % 2 == 1 && s > 1 && labels[s / 2] != labels[s / 2 - 1]; }
};

/// Returns log(exp a + exp b + exp c); NaN if one of them is NaN.
BINADE_HD double log_sum_exp(double a, double b, double c) {
  const double higher = a > b ? a : b, most = higher > c ? higher : c;
  if (most == kNoPath) return a + b + c;
  const double other = most == a ? b : a, last = most == a || most == b ? c : b;
  return most + std::log1p(std::exp(other - most) + std::exp(last - most));
}

/// Returns the log-probability of all paths that are in state s at the first step. x: log-probability of its class.
BINADE_HD double ctc_start(std::int64_t s, double x) { return s < 2 ? x : kNoPath; }
/// Returns the log-probability of all paths that are in state s at a step, from those of the states one step before.
BINADE_HD double ctc_forward(const CtcSample& q, const double* before, std::int64_t s, double x) {
  return x + log_sum_exp(before[s], s > 0 ? before[s - 1] : kNoPath, q.skips_to(s) ? before[s - 2] : kNoPath);
}
/// Returns the log-probability of all paths of the sample, from those of the states at the last step.
BINADE_HD double ctc_total(const CtcSample& q, const double* last) {
  return log_sum_exp(last[2 * q.count], q.count > 0 ? last[2 * q.count - 1] : kNoPath, kNoPath);
}
/// Returns the log-probability that a path in state s at the last step is complete: 0 or kNoPath.
BINADE_HD double ctc_end(const CtcSample& q, std::int64_t s) { return s + 2 >= q.states() ? 0 : kNoPath; }
/// Returns the log-probability of all continuations, after a step, of a path in state s. after[r]: the same for state r
/// one step later, plus the log-probability of the class of r at that later step.
BINADE_HD double ctc_backward(const CtcSample& q, const double* after, std::int64_t s) {
  return log_sum_exp(after[s], s + 1 < q.states() ? after[s + 1] : kNoPath,
                     s + 2 < q.states() && q.skips_to(s + 2) ? after[s + 2] : kNoPath);
}
/// Returns the loss of a sample from the log-probability of its paths.
BINADE_HD double ctc_loss(const CtcArgs& a, double total) { return total == kNoPath && a.zero_infinity ? 0 : -total; }

}  // namespace binade
