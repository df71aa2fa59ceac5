#include "binade/optim/parameter_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "binade/core/did_you_mean.h"
#include "binade/core/precision.h"

namespace binade::optim {
namespace {

/// Returns patterns and names that a user may have meant: every name, every module with ".*", every last part with
/// "*.".
std::vector<std::string> patterns_of(const std::vector<NamedParameter>& parameters) {
  std::set<std::string> patterns;
  for (const NamedParameter& p : parameters) {
    patterns.insert(p.name);
    for (std::size_t dot = p.name.find('.'); dot != p.name.npos; dot = p.name.find('.', dot + 1))
      patterns.insert(p.name.substr(0, dot) + ".*");
    if (const std::size_t last = p.name.rfind('.'); last != p.name.npos) patterns.insert("*" + p.name.substr(last));
  }
  return {patterns.begin(), patterns.end()};
}

/// Returns the end of the error about a group that selects no parameter.
std::string advice_for(const ParameterMatch& match, const std::vector<NamedParameter>& parameters) {
  const std::vector<std::string> patterns = patterns_of(parameters);
  for (const std::string& glob : match.globs())
    if (const std::string advice = did_you_mean(glob, patterns); !advice.empty()) return advice;
  constexpr std::size_t kShown = 5;
  std::vector<std::string> names;
  for (const NamedParameter& p : parameters)
    if (names.size() < kShown) names.push_back(p.name);
  return fmt::format("; the parameters are {}{}", fmt::join(names, ", "),
                     parameters.size() > kShown ? fmt::format(" and {} more", parameters.size() - kShown) : "");
}

std::string settings_of(const ParameterGroup& g) {
  std::vector<std::string> settings;
  const auto add = [&](const char* name, const auto& value) {
    if (value) settings.push_back(fmt::format("{} {}", name, *value));
  };
  add("lr", g.lr);
  add("lr_factor", g.lr_factor);
  if (g.schedule) settings.push_back(fmt::format("schedule {}", g.schedule->kind()));
  add("weight_decay", g.weight_decay);
  if (g.decays) settings.emplace_back("own decay filter");
  add("momentum", g.momentum);
  add("dampening", g.dampening);
  add("nesterov", g.nesterov);
  add("beta1", g.beta1);
  add("beta2", g.beta2);
  add("eps", g.eps);
  add("alpha", g.alpha);
  add("rho", g.rho);
  return settings.empty() ? "no setting" : fmt::format("{}", fmt::join(settings, ", "));
}

std::string entry(std::size_t group) { return fmt::format("groups/{}", group); }
std::string schedule_entry(std::size_t group) { return fmt::format("schedules/{}", group); }

}  // namespace

ParameterMatch::ParameterMatch(std::string glob)
    : selects_([glob](std::string_view name, const Variable&) { return glob_match(glob, name); }),
      text_(fmt::format("'{}'", glob)),
      globs_({std::move(glob)}) {}

ParameterMatch::ParameterMatch(std::initializer_list<ParameterMatch> alternatives) {
  const std::vector<ParameterMatch> list(alternatives);
  selects_ = [list](std::string_view name, const Variable& parameter) {
    return std::ranges::any_of(list, [&](const ParameterMatch& one) { return one(name, parameter); });
  };
  for (const ParameterMatch& one : list) {
    text_ += (text_.empty() ? "" : " or ") + one.text();
    globs_.insert(globs_.end(), one.globs().begin(), one.globs().end());
  }
}

ParameterMatch::ParameterMatch(const std::vector<NamedParameter>& parameters) : text_("a module") {
  std::set<const void*> members;
  for (const NamedParameter& p : parameters) members.insert(p.variable.state().get());
  selects_ = [members](std::string_view, const Variable& parameter) {
    return members.contains(parameter.state().get());
  };
}

ParameterGroups::ParameterGroups(std::string kind, double lr, std::vector<ParameterGroup> groups,
                                 std::vector<NamedParameter>& parameters)
    : kind_(std::move(kind)), lr_(lr), groups_(std::move(groups)), classes_(1) {
  std::vector<std::size_t> members(groups_.size()), decaying(groups_.size());
  std::set<const void*> seen;
  for (NamedParameter& p : parameters) {
    std::vector<std::size_t> own;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const ParameterGroup& group = groups_[g];
      check<ArgumentError>(group.match.defined(), "{}: group {} selects nothing; set its `match`", kind_, g);
      if (!group.match(p.name, p.variable)) continue;
      own.push_back(g);
      if (group.decays) p.decays = group.decays(p.name, p.variable);
    }
    if (!seen.insert(p.variable.state().get()).second) continue;  // a tied parameter has the groups of its first name
    for (const std::size_t g : own) ++members[g], decaying[g] += p.decays ? 1 : 0;
    auto found = std::ranges::find(classes_, own, &Class::groups);
    if (found == classes_.end()) found = classes_.insert(found, Class{.groups = own});
    ++found->parameters;
    class_of_.push_back(static_cast<std::size_t>(found - classes_.begin()));
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const ParameterGroup& group = groups_[g];
    const std::string& text = group.match.text();
    check<ArgumentError>(members[g] > 0, "{}: group {} selects no parameter{}", kind_, text,
                         members[g] > 0 ? "" : advice_for(group.match, parameters));
    check<ArgumentError>(group.lr.has_value() + group.lr_factor.has_value() + group.schedule.has_value() <= 1,
                         "{}: group {} sets two of lr, lr_factor and schedule; set one", kind_, text);
    for (const double rate : {group.lr.value_or(0), group.lr_factor.value_or(0)})
      check<ArgumentError>(rate >= 0 && rate <= 1e6, "{}: group {}: wanted lr and lr_factor in [0, 1e6], got {}", kind_,
                           text, rate);
    check<ArgumentError>(group.lr.value_or(0) == 0 || lr_ > 0,
                         "{}: group {} sets lr {}, which scales the step's rate by lr / (lr of the options), and that "
                         "is 0; give the options an lr, or the group a schedule",
                         kind_, text, group.lr.value_or(0));
    check<ArgumentError>(group.weight_decay.value_or(0) == 0 || decaying[g] > 0,
                         "{}: group {} sets weight_decay {}, which applies to none of its {} parameters; set the "
                         "group's filter: .decays = optim::decay_all",
                         kind_, text, group.weight_decay.value_or(0), members[g]);
    texts_.push_back(fmt::format("group {} ({} parameters): {}", text, members[g], settings_of(group)));
  }
  for (Class& one : classes_)
    for (const std::size_t g : one.groups) {
      const ParameterGroup& group = groups_[g];
      if (!group.lr && !group.lr_factor && !group.schedule) continue;
      one.lr_factor = group.lr ? (lr_ > 0 ? *group.lr / lr_ : 0) : group.lr_factor.value_or(1);
      one.schedule = group.schedule ? std::optional(g) : std::nullopt;
    }
}

std::string ParameterGroups::label_of(std::size_t index) const {
  const auto name_of_group = [&](std::size_t g) {
    const ParameterGroup& group = groups_[g];
    std::string own = group.name.empty() ? fmt::format("{}", fmt::join(group.match.globs(), ",")) : group.name;
    const auto has_same_name = [&](const ParameterGroup& other) {
      return &other != &group && (group.name.empty() ? other.match.globs() == group.match.globs() && other.name.empty()
                                                     : other.name == group.name);
    };
    if (own.empty() || std::ranges::any_of(groups_, has_same_name))
      own += fmt::format("{}group {}", own.empty() ? "" : " ", g + 1);
    return own;
  };
  // A name may look like a label itself ("rest", "a+b", "a group 2"), so that equal labels get a number.
  std::set<std::string> labels;
  for (std::size_t one = 0;; ++one) {
    std::string label = one == 0 ? "rest" : "";
    for (const std::size_t g : classes_[one].groups) label += (label.empty() ? "" : "+") + name_of_group(g);
    const std::string plain = label;
    for (int copy = 2; !labels.insert(label).second; ++copy) label = fmt::format("{} #{}", plain, copy);
    if (one == index) return label;
  }
}

std::string ParameterGroups::name_of(std::size_t index) const {
  std::string name;
  for (const std::size_t g : classes_[index].groups)
    name += (name.empty() ? "group " : " and ") + groups_[g].match.text();
  return name;
}

double ParameterGroups::lr(std::size_t index, const StepInput& input) const {
  const Class& one = classes_[index];
  return one.schedule ? groups_[*one.schedule].schedule->lr(input.step) * input.lr_cut : input.lr * one.lr_factor;
}

double ParameterGroups::highest_lr(const StepInput& input) const {
  double highest = 0;
  for (std::size_t index = 0; index < classes_.size(); ++index)
    if (classes_[index].parameters > 0) highest = std::max(highest, lr(index, input));
  return highest;
}

double ParameterGroups::peak_lr(std::size_t index, double lr) const {
  const Class& one = classes_[index];
  return one.schedule ? groups_[*one.schedule].schedule->options().lr : lr * one.lr_factor;
}

void ParameterGroups::observe(double loss) {
  for (ParameterGroup& group : groups_)
    if (group.schedule) group.schedule->observe(loss);
}

void ParameterGroups::put_state(StateDict& state) const {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    state.put(entry(g), texts_[g]);
    if (groups_[g].schedule) state.merge(schedule_entry(g), groups_[g].schedule->state());
  }
}

void ParameterGroups::check_state(const StateDict& state) const {
  for (std::size_t g = 0; g < groups_.size(); ++g)
    if (const StateDict saved = state.section(schedule_entry(g)); groups_[g].schedule && !saved.empty())
      groups_[g].schedule->check_state(saved);
}

void ParameterGroups::load_state(const StateDict& state) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (!groups_[g].schedule) continue;
    const bool same = state.contains(entry(g)) && state.text(entry(g)) == texts_[g];
    if (const StateDict saved = state.section(schedule_entry(g)); same && !saved.empty())
      groups_[g].schedule->load_state(saved);
    else
      groups_[g].schedule->restart();  // another group: its schedule begins anew
  }
}

std::vector<std::string> ParameterGroups::changes_since(const StateDict& saved) const {
  std::vector<std::string> changes;
  const StateDict then = saved.section("groups");
  for (std::size_t g = 0; g < std::max(groups_.size(), then.values().size()); ++g) {
    const std::string before = saved.contains(entry(g)) ? saved.text(entry(g)) : "none";
    const std::string now = g < groups_.size() ? texts_[g] : "none";
    if (before != now) changes.push_back(fmt::format("parameter groups: {} -> {}", before, now));
  }
  return changes;
}

}  // namespace binade::optim
