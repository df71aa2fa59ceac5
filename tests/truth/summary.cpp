#include "tests/truth/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

namespace binade::truth {

namespace {

struct Share {
  std::int64_t hits = 0, all = 0;
};

std::string row(const std::string& what, const std::string& goal, const Share& share) {
  const Interval i = wilson(share.hits, share.all);
  const double percent = share.all > 0 ? 100.0 * static_cast<double>(share.hits) / static_cast<double>(share.all) : 0;
  return fmt::format("| {} | {} | {} of {} | {:.1f} % | {:.1f} to {:.1f} % |\n", what, goal, share.hits, share.all,
                     percent, i.low, i.high);
}

Share share_of(const std::vector<Record>& trials, const std::function<bool(const Record&)>& counts,
               const std::function<bool(const Record&)>& hit) {
  Share share;
  for (const Record& r : trials) {
    if (!r.valid() || !counts(r)) continue;
    ++share.all;
    share.hits += hit(r) ? 1 : 0;
  }
  return share;
}

std::string wrong_in(const Record& r) {
  std::string wrong;
  const auto add = [&](bool bad, const char* what) {
    if (bad) wrong += (wrong.empty() ? "" : ", ") + std::string(what);
  };
  add(!r.detected, "not detected");
  add(r.aborted && !r.state_same, "state changed");
  add(!r.place_right, "place");
  add(!r.sample_right, "sample");
  add(!r.class_right && !r.not_proven, "class");
  add(!r.recovered.value_or(true), "not recovered");
  add(r.wrong_and_proven(), "called proven");
  return wrong;
}

}  // namespace

Interval wilson(std::int64_t hits, std::int64_t all) {
  if (all == 0) return {0, 100};
  const double n = static_cast<double>(all), p = static_cast<double>(hits) / n, z = 1.96;
  const double center = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n);
  return {100 * std::max(0.0, center - half), 100 * std::min(1.0, center + half)};
}

std::string table_of(const Results& results) {
  const auto& t = results.trials;
  const auto all = [](const Record&) { return true; };
  const auto detected = [](const Record& r) { return r.detected; };
  std::string text = "| | goal | counted | share | 95 % interval |\n|---|---|---|---|---|\n";
  text += row("detected at the step", "100 %", share_of(t, all, detected));
  text += row("state unchanged by an abort", "100 %",
              share_of(
                  t, [](const Record& r) { return r.aborted; }, [](const Record& r) { return r.state_same; }));
  text += row("first bad op, module and direction correct", ">= 98 %",
              share_of(t, all, [](const Record& r) { return r.place_right; }));
  text += row("samples correct, if particular samples cause the fault", ">= 97 %",
              share_of(
                  t, [](const Record& r) { return r.single_cause; }, [](const Record& r) { return r.sample_right; }));
  text += row("no sample named, if no particular sample causes the fault", "",
              share_of(
                  t, [](const Record& r) { return !r.single_cause && r.detected; },
                  [](const Record& r) { return r.sample_right; }));
  text += row("class correct, or reported as not proven", ">= 99 %",
              share_of(t, all, [](const Record& r) { return r.class_right || r.not_proven; }));
  text += row("class correct", ">= 93 %", share_of(t, all, [](const Record& r) { return r.class_right; }));
  text += row("wrong class reported as proven", "",
              share_of(t, detected, [](const Record& r) { return r.proven && !r.class_right; }));
  text += row("reported as proven, but place, sample or class is wrong", "<= 0.5 %",
              share_of(t, detected, [](const Record& r) { return r.wrong_and_proven(); }));
  text += row("recovered within 1 % of the unharmed run", ">= 97 %",
              share_of(
                  t, [](const Record& r) { return r.recovered.has_value(); },
                  [](const Record& r) { return *r.recovered; }));

  Share silent;
  for (const SilentRecord& r : results.silent) {
    if (!r.void_because.empty()) continue;
    ++silent.all;
    silent.hits += r.warned ? 1 : 0;
  }
  text += row("silent defects warned about", ">= 95 %", silent);

  std::int64_t steps = 0, alarms = 0, early = 0, voids = 0;
  std::set<std::string> models, scenarios;
  for (const CleanRecord& c : results.clean) {
    steps += c.steps;
    alarms += static_cast<std::int64_t>(c.alarms.size());
  }
  std::vector<int> replays;
  for (const Record& r : t) {
    early += r.early_alarm.empty() ? 0 : 1;
    voids += r.void_because.empty() ? 0 : 1;
    if (!r.valid()) continue;
    models.insert(r.model);
    scenarios.insert(r.scenario + " in " + r.model);
    if (r.replays > 0) replays.push_back(r.replays);
  }
  std::sort(replays.begin(), replays.end());
  const Interval i = wilson(alarms, steps);
  text += fmt::format(
      "| false alarms per 10,000 steps of healthy runs | <= 1 | {} in {} | {:.1f} | {:.1f} to {:.1f} |\n", alarms,
      steps, steps > 0 ? 1e4 * static_cast<double>(alarms) / static_cast<double>(steps) : 0.0, 100 * i.low,
      100 * i.high);
  if (!replays.empty())
    text += fmt::format(
        "| replays per diagnosis | median <= 4, at most 12 | {} diagnoses | median {}, at most {} | |\n",
        replays.size(), replays[replays.size() / 2], replays.back());
  text += fmt::format(
      "\n{} faults judged: {} scenarios in {} models; {} void (the fault did not turn out as meant), {} with an alarm "
      "before the fault\n",
      static_cast<std::int64_t>(t.size()) - early - voids, scenarios.size(), models.size(), voids, early);
  return text;
}

std::string failures_of(const Results& results) {
  std::string text;
  for (const Record& r : results.trials) {
    const std::string way = r.way == "plain" ? "" : " --ways " + r.way;
    const std::string id = fmt::format("{} | {} | {} | {} | --seed {}{}", r.family, r.scenario, r.model, r.precision,
                                       r.seed, way);
    if (!r.early_alarm.empty())
      text += fmt::format("EARLY  {}: {}\n", id, r.early_alarm);
    else if (!r.void_because.empty())
      text += fmt::format("VOID   {}: {}\n", id, r.void_because);
    else if (!r.all_right() || r.wrong_and_proven())
      text += fmt::format("WRONG  {}, step {}: {}\n         true: {}\n         said: {}\n         then: {}\n", id,
                          r.step, wrong_in(r), r.truth, r.said, r.recovery);
  }
  for (const SilentRecord& r : results.silent)
    if (!r.warned && r.void_because.empty())
      text += fmt::format("UNTOLD {} | {} | {} | --seed {}: {}\n", r.scenario, r.model, r.precision, r.seed,
                          r.said.empty() ? "nothing" : r.said.substr(0, 200));
  for (const CleanRecord& c : results.clean)
    for (const std::string& alarm : c.alarms)
      text += fmt::format("FALSE  {} | {} | {} | --seed {} | {}\n", c.model, c.precision, c.kind, c.seed, alarm);
  return text;
}

std::string json_lines(const Results& results) {
  std::string text;
  for (const Record& r : results.trials) {
    nlohmann::json j{{"kind", "fault"},          {"family", r.family}, {"scenario", r.scenario}, {"model", r.model},
                     {"precision", r.precision}, {"way", r.way},       {"seed", r.seed},         {"step", r.step}};
    if (!r.valid()) {
      j["void"] = r.void_because;
      j["early_alarm"] = r.early_alarm;
    } else {
      j.update({{"true", r.truth},
                {"said", r.said},
                {"detected", r.detected},
                {"aborted", r.aborted},
                {"state_same", r.state_same},
                {"place", r.place_right},
                {"sample", r.sample_right},
                {"class", r.class_right},
                {"not_proven", r.not_proven},
                {"proven", r.proven},
                {"replays", r.replays},
                {"recovery", r.recovery}});
      if (r.recovered) j["recovered"] = *r.recovered;
    }
    text += j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  for (const SilentRecord& r : results.silent)
    text += nlohmann::json{{"kind", "silent"},         {"scenario", r.scenario}, {"model", r.model},
                           {"precision", r.precision}, {"seed", r.seed},         {"void", r.void_because},
                           {"told", r.warned},         {"steps", r.steps},       {"said", r.said}}
                .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
            "\n";
  for (const CleanRecord& c : results.clean)
    text += nlohmann::json{{"kind", "clean"}, {"model", c.model}, {"precision", c.precision}, {"run", c.kind},
                           {"seed", c.seed},  {"steps", c.steps}, {"alarms", c.alarms}}
                .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
            "\n";
  return text;
}

}  // namespace binade::truth
