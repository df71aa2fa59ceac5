#include "tests/faults/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/faults/score.h"

namespace binade::faults {
namespace {

using Json = nlohmann::ordered_json;

std::string cell(const Share& share) {
  return share.of == 0 ? fmt::format("{:>9}", "-") : fmt::format("{:>5}/{:<3}", share.right, share.of);
}

std::string row(const std::string& name, const Totals& t) {
  return fmt::format("{:<42}{:>5} {} {} {} {} {} {}{:>6}{:>8.1f}{:>8.2f}\n", name, t.cases, cell(t.place),
                     cell(t.sample), cell(t.cause), cell(t.hash), cell(t.remedy), cell(t.recovered), t.wrong_but_proven,
                     median(t.replays), median(t.seconds));
}

std::string confusion(const std::vector<Score>& scores) {
  std::map<std::string, std::map<std::string, int>> table;
  for (const Score& s : scores)
    if (s.card.incident || s.incident)
      ++table[s.card.incident ? s.planted_cause() : "(nothing planted)"]
             [s.found_cause.empty() ? "(no incident)" : s.found_cause];
  std::string text = fmt::format("\n{:<26} diagnosed as\n", "planted");
  for (const auto& [planted, found] : table) {
    text += fmt::format("{:<26}", planted);
    for (const auto& [cause, count] : found) text += fmt::format(" {} {},", cause, count);
    text.back() = '\n';
  }
  return text;
}

/// What was wrong with the diagnosis, as text; empty: nothing.
std::string complaint(const Score& s) {
  std::string text;
  const auto add = [&](bool bad, const char* what) { text += bad ? fmt::format(" {}", what) : ""; };
  add(!s.card.incident && s.incident, "false-alarm");
  add(s.card.incident && !s.incident, "silent");
  add(s.card.incident && s.incident && !s.place, "place");
  add(s.sample_judged() && s.incident && !s.sample, "sample");
  add(s.card.incident && s.incident && !s.cause, "class");
  add(s.wrong_but_proven, "wrong-but-proven");
  add(!s.hash, "hash");
  add(s.card.recoverable && !s.recovered, "not-recovered");
  return text;
}

Json share(const Share& s) { return {{"right", s.right}, {"of", s.of}, {"percent", s.percent()}}; }

Json totals_json(const Totals& t) {
  return {{"cases", t.cases},
          {"place", share(t.place)},
          {"sample", share(t.sample)},
          {"class", share(t.cause)},
          {"wrong_but_proven", t.wrong_but_proven},
          {"state_hash", share(t.hash)},
          {"remedy", share(t.remedy)},
          {"recovered", share(t.recovered)},
          {"quiet_controls", share(t.controls)},
          {"median_replays", median(t.replays)},
          {"median_seconds", median(t.seconds)}};
}

Json case_json(const Score& s) {
  const Place place = s.card.place.value_or(Place{});
  return {{"family", s.family},
          {"theme", s.theme},
          {"model", name_of(s.spot.model)},
          {"precision", s.spot.precision},
          {"seed", s.spot.seed},
          {"step", s.spot.step},
          {"row", s.spot.row},
          {"micro_batches", s.spot.micro_batches},
          {"site", s.spot.site},
          {"fault", s.card.incident},
          {"module", place.module},
          {"op", place.op},
          {"direction", place.direction},
          {"parameter", s.card.parameter},
          {"planted_class", s.planted_cause()},
          {"found", s.found},
          {"found_class", s.found_cause},
          {"incident", s.incident},
          {"place", s.place},
          {"sample", s.sample_judged() ? Json(s.sample) : Json()},
          {"class", s.cause},
          {"wrong_but_proven", s.wrong_but_proven},
          {"state_hash", s.hash},
          {"replays", s.replays},
          {"remedy", s.remedy},
          {"right_remedy", s.right_remedy},
          {"recoverable", s.card.recoverable},
          {"recovered", s.recovered},
          {"final_loss", s.final_loss},
          {"control_loss", s.control_loss},
          {"seconds", s.seconds},
          {"error", s.error}};
}

/// Scores grouped by family or theme, in the order in which these first appear.
std::vector<std::pair<std::string, std::vector<Score>>> grouped(const std::vector<Score>& scores,
                                                                std::string Score::*by) {
  std::vector<std::pair<std::string, std::vector<Score>>> groups;
  for (const Score& s : scores) {
    auto group = std::ranges::find(groups, s.*by, [](const auto& g) { return g.first; });
    if (group == groups.end()) group = groups.insert(groups.end(), {s.*by, {}});
    group->second.push_back(s);
  }
  return groups;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void Totals::count(const Score& s) {
  ++cases;
  hash.count(s.hash);
  seconds.push_back(s.seconds);
  if (s.card.recoverable) recovered.count(s.recovered);
  if (!s.card.incident) return controls.count(!s.incident);
  place.count(s.incident && s.place);
  if (s.sample_judged()) sample.count(s.incident && s.sample);
  cause.count(s.incident && s.cause);
  remedy.count(s.incident && s.right_remedy);
  wrong_but_proven += s.wrong_but_proven ? 1 : 0;
  if (s.incident) replays.push_back(static_cast<double>(s.replays));
}

Totals total_of(const std::vector<Score>& scores) {
  Totals totals;
  for (const Score& s : scores) totals.count(s);
  return totals;
}

std::string text_table(const std::vector<Score>& scores) {
  std::string text = fmt::format("{:<42}{:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}{:>6}{:>8}{:>8}\n", "family", "cases",
                                 "op", "sample", "class", "hash", "remedy", "recovered", "w.b.p", "replays", "s");
  for (const auto& [name, group] : grouped(scores, &Score::family)) text += row(name, total_of(group));
  const Totals all = total_of(scores);
  text += "\n";
  for (const auto& [name, group] : grouped(scores, &Score::theme)) text += row(name, total_of(group));
  text += row("all", all);
  text += fmt::format(
      "\nop {:.1f} %, sample {:.1f} %, class {:.1f} %, wrong but proven {} of {}, state hash {:.1f} %, "
      "quiet without a fault {}/{}, right remedy {:.1f} %, recovered {:.1f} %\n",
      all.place.percent(), all.sample.percent(), all.cause.percent(), all.wrong_but_proven, all.place.of,
      all.hash.percent(), all.controls.right, all.controls.of, all.remedy.percent(), all.recovered.percent());
  text += confusion(scores);
  std::string wrong;
  for (const Score& s : scores)
    if (const std::string what = complaint(s); !what.empty())
      wrong += fmt::format("{} [{}]:{}\n  wanted {} {}\n  got    {} {} {}\n", s.family, s.spot.to_string(), what,
                           in_words(s.card), s.planted_cause(), s.found, s.found_cause, s.error);
  return wrong.empty() ? text : text + "\nwhat went wrong\n" + wrong;
}

std::string json_table(const std::vector<Score>& scores, std::uint64_t seed) {
  Json json{{"schema", 1}, {"seed", seed}, {"totals", totals_json(total_of(scores))}};
  for (const auto& [name, group] : grouped(scores, &Score::family))
    json["families"][name] = totals_json(total_of(group));
  json["cases"] = Json::array();
  for (const Score& s : scores) json["cases"].push_back(case_json(s));
  return json.dump(1) + "\n";
}

}  // namespace binade::faults
