#include "tests/faults/score.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "binade/amp/incident/report.h"

namespace binade::faults {
namespace {

constexpr double kSameLoss =
    0.01;  // relative difference from the control's final loss up to which a run counts as recovered

template <class T>
bool among(const std::vector<T>& list, const T& x) {
  return std::ranges::find(list, x) != list.end();
}

std::string sample_text(const std::optional<std::int64_t>& sample) {
  return sample ? fmt::format(" sample {}", *sample) : "";
}

std::string in_words(const std::optional<amp::FirstBad>& bad) {
  if (!bad) return "no op";
  std::string text = fmt::format("{} '{}' {} {}", bad->module, bad->op, bad->direction, bad->value);
  if (!bad->parameter.empty()) text += " of " + bad->parameter;
  return text + sample_text(bad->sample);
}

/// The remedy's name in report.json.
std::string remedy_of(const amp::Incident& incident) {
  return nlohmann::json::parse(amp::report_json(incident))["remedy"]["action"];
}

/// Compares module, op and direction exactly, and the parameter if the card names one. An empty op in the card matches
/// every op.
bool same_place(const Card& card, const std::optional<amp::FirstBad>& bad) {
  if (!card.place) return true;
  if (!bad || bad->direction != card.place->direction) return false;
  if (!card.values.empty() && !among(card.values, bad->value)) return false;
  if (!card.parameter.empty() && bad->parameter != card.parameter) return false;
  if (card.place->op.empty()) return true;
  // Under a 16-bit policy, the layer's cast reads the batch first. Damaged state may be found before any op reads it.
  const bool same_op = bad->op == card.place->op || (bad->direction == "input" && bad->op == "cast") ||
                       (bad->direction == "state" && bad->op.empty());
  return same_op && bad->module == card.place->module;
}

}  // namespace

std::string in_words(const Card& card) {
  if (!card.incident) return "no incident";
  std::string text = card.place ? fmt::format("{} '{}' {}", card.place->module, card.place->op, card.place->direction)
                                : "no op";
  if (!card.parameter.empty()) text += " of " + card.parameter;
  return text + (card.judge_sample ? sample_text(card.sample) : "");
}

Score compare(const Card& card, const Run& run, double control) {
  Score s{.card = card,
          .found = "no incident",
          .final_loss = run.final_loss,
          .control_loss = control,
          .seconds = run.seconds,
          .error = run.error};
  for (const amp::StepResult& r : run.attempts)
    s.hash = s.hash && (r.committed || r.state_hash_before == r.state_hash_after);
  const auto first = std::ranges::find_if(run.attempts,
                                          [](const amp::StepResult& r) { return r.incident.has_value(); });
  s.incident = first != run.attempts.end();
  s.recovered = std::abs(run.final_loss - control) <= kSameLoss * control;
  if (!s.incident) return s;

  const amp::Diagnosis& d = first->incident->diagnosis;
  s.found = in_words(d.first_bad);
  s.found_cause = name_of(d.cause);
  s.replays = d.replays;
  s.place = card.incident && same_place(card, d.first_bad);
  s.sample = (d.first_bad ? d.first_bad->sample : std::nullopt) == card.sample;
  s.cause = among(card.causes, d.cause);
  if (s.cause) s.found_cause = s.planted_cause();
  s.wrong_but_proven = d.confidence == amp::Confidence::kProven && !(s.place && s.cause);
  s.remedy = run.error.empty() ? remedy_of(*first->incident) : "stop";
  s.right_remedy = among(card.remedies, s.remedy);
  return s;
}

}  // namespace binade::faults
