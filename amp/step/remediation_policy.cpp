#include "binade/amp/step/remediation_policy.h"

#include "binade/amp/text.h"
#include "binade/core/state_counts.h"

namespace binade::amp {

std::int64_t RemediationPolicy::promote(const std::string& target, std::int64_t step) {
  const auto existing = std::ranges::find(promotions_, target, &Promotion::target);
  if (existing == promotions_.end()) {
    promotions_.push_back({target, step - 1 + options_.promoted_steps, options_.promoted_steps});
    return promotions_.back().until;
  }
  if (existing->active) return 0;
  existing->steps *= 2;
  existing->until = step - 1 + existing->steps;
  existing->active = true;
  return existing->until;
}

std::vector<std::string> RemediationPolicy::review(std::int64_t step,
                                                   const std::function<bool(const std::string& target)>& needed) {
  std::vector<std::string> changes;
  for (Promotion& p : promotions_) {
    if (!p.active || p.until > step) continue;
    if (needed(p.target)) {
      p.until = step + p.steps;
      changes.push_back(fmt::format("{} still needs f32 and keeps it until step {}", p.target, p.until));
    } else {
      p.active = false;
      changes.push_back(fmt::format("{} is in its own precision again", p.target));
    }
  }
  return changes;
}

Policy RemediationPolicy::applied_to(Policy policy) const {
  for (const Promotion& p : promotions_)
    if (p.active) policy = policy.with(p.target, DType::f32);
  return policy;
}

bool RemediationPolicy::may_roll_back(std::int64_t step) const {
  std::int64_t recent = 0;
  for (std::size_t i = 0; i < rollbacks_.size(); i += 2) recent += rollbacks_[i] > step - options_.window ? 1 : 0;
  return recent < options_.rollbacks;
}

std::int64_t RemediationPolicy::rollback_floor(std::int64_t step) const {
  std::int64_t floor = -1;
  for (std::size_t i = 0; i < rollbacks_.size(); i += 2)
    if (rollbacks_[i] > step - options_.window) floor = std::max(floor, rollbacks_[i + 1]);
  return floor;
}

void RemediationPolicy::rolled_back(std::int64_t from, std::int64_t to, bool cut_lr) {
  rollbacks_.insert(rollbacks_.end(), {from, to});
  if (!cut_lr) return;
  cut_factor_ = lr_factor(to + 1) * options_.lr_cut;
  cut_from_ = to + 1;
  cut_until_ = from + options_.lr_cut_steps;
}

double RemediationPolicy::lr_factor(std::int64_t step) const {
  return step >= cut_from_ && step <= cut_until_ ? cut_factor_ : 1;
}

StateDict RemediationPolicy::state() const {
  StateDict state;
  std::string targets;
  StateDict::Integers numbers;
  for (const Promotion& p : promotions_) {
    add_line(targets, p.target);
    numbers.insert(numbers.end(), {p.until, p.steps, p.active ? 1 : 0});
  }
  state.put("promoted", targets);
  state.put("promoted_until", numbers);
  state.put("rollbacks", rollbacks_);
  state.put("lr_cut", StateDict::Integers{cut_from_, cut_until_});
  state.put("lr_factor", cut_factor_);
  return state;
}

RemediationPolicy RemediationPolicy::decode(const StateDict& saved) const {
  RemediationPolicy policy(options_);
  const std::vector<std::string> targets = split_lines(saved.text("promoted"));
  const StateDict::Integers& numbers = read_counts(saved, "promoted_until");
  check<CheckpointError>(numbers.size() == 3 * targets.size(),
                         "remedies: the checkpoint's list of promoted ops is damaged");
  for (std::size_t i = 0; i < targets.size(); ++i)
    policy.promotions_.push_back({targets[i], numbers[3 * i], numbers[3 * i + 1], numbers[3 * i + 2] != 0});
  policy.rollbacks_ = read_counts(saved, "rollbacks");
  const StateDict::Integers& cut = read_counts(saved, "lr_cut");
  policy.cut_factor_ = saved.number("lr_factor");
  check<CheckpointError>(policy.rollbacks_.size() % 2 == 0 && cut.size() == 2 && policy.cut_factor_ > 0 &&
                             policy.cut_factor_ <= 1,
                         "remedies: the checkpoint's record of remedies is damaged");
  policy.cut_from_ = cut[0];
  policy.cut_until_ = cut[1];
  return policy;
}

}  // namespace binade::amp
