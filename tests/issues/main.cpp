// Trains rebuilt public issues and compares what Binade reports with the cause that each thread settled on.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "tests/issues/issue.h"

namespace binade::issues {
namespace {

enum class Verdict { kNamed, kNotProven, kWrong, kSilent, kNotRebuilt };

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kNamed: return "named";
    case Verdict::kNotProven: return "honestly not proven";
    case Verdict::kWrong: return "wrong";
    case Verdict::kSilent: return "silent";
    case Verdict::kNotRebuilt: return "not rebuilt";
  }
  return {};
}

bool accepts(const std::vector<std::string>& accepted, const std::string& text) {
  return accepted.empty() || std::find(accepted.begin(), accepted.end(), text) != accepted.end();
}

/// The errors in a diagnosis as text; empty if it is right.
std::string mistakes(const Truth& truth, const amp::Diagnosis& diagnosis) {
  std::string text;
  const auto add = [&](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  if (!diagnosis.first_bad) return diagnosis.cause == amp::CauseClass::kNotProven ? "" : "no place";
  const amp::FirstBad& bad = *diagnosis.first_bad;
  if (!accepts(truth.ops, bad.op)) add("op");
  if (!accepts(truth.modules, bad.module)) add("module");
  if (!truth.direction.empty() && bad.direction != truth.direction) add("direction");
  if (truth.sample && bad.sample != truth.sample && diagnosis.samples != std::vector{*truth.sample})
    add(bad.sample || !diagnosis.samples.empty() ? "sample" : "no sample");
  return text;
}

bool class_accepted(const Truth& truth, amp::CauseClass cause) {
  return std::find(truth.classes.begin(), truth.classes.end(), cause) != truth.classes.end();
}

struct Judgement {
  Verdict verdict = Verdict::kSilent;
  std::string said{}, remedy{}, note{};
};

Judgement judge_incident(const Issue& issue, const Run& run) {
  const amp::Incident& incident = run.incidents.front();
  const amp::Diagnosis& diagnosis = incident.diagnosis;
  Judgement j;
  j.note = mistakes(issue.truth, diagnosis);
  const bool unproven = diagnosis.cause == amp::CauseClass::kNotProven ||
                        diagnosis.confidence == amp::Confidence::kNotProven;
  if (unproven)
    j.verdict = j.note.empty() || j.note == "no sample" ? Verdict::kNotProven : Verdict::kWrong;
  else if (class_accepted(issue.truth, diagnosis.cause))
    j.verdict = j.note.empty() ? Verdict::kNamed : Verdict::kWrong;
  else
    j.verdict = Verdict::kWrong, j.note += (j.note.empty() ? "class" : ", class");
  std::string place = "no op";
  if (const auto& bad = diagnosis.first_bad) {
    place = fmt::format("`{}` in `{}`, {}", bad->op.empty() ? bad->tensor : bad->op, bad->module, bad->direction);
    if (bad->sample)
      place += fmt::format(", sample {}", *bad->sample);
    else if (!diagnosis.samples.empty())
      place += fmt::format(", samples {}", fmt::join(diagnosis.samples, " "));
  }
  j.said = fmt::format("{}; {} ({})", place, name_of(diagnosis.cause), name_of(diagnosis.confidence));
  j.remedy = std::string(name_of(incident.remedy.action));
  if (!incident.remedy.target.empty()) j.remedy += fmt::format(" `{}`", incident.remedy.target);
  j.remedy += run.last_committed && run.state_finite ? ", recovered" : ", not recovered";
  return j;
}

std::string first_words(const std::string& text, std::size_t most) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.size() <= most ? line : line.substr(0, most) + " …";
}

Judgement judge(const Issue& issue, const Run& run) {
  if (!run.failed_checks.empty()) return {Verdict::kNotRebuilt, run.failed_checks.front()};
  const auto named = [&](const amp::Warning& w) {
    const auto& kinds = issue.truth.warnings;
    return std::find(kinds.begin(), kinds.end(), w.kind) != kinds.end();
  };
  const auto warning = std::find_if(run.warnings.begin(), run.warnings.end(), named);
  if (warning != run.warnings.end() && (issue.truth.silent || run.incidents.empty() || issue.truth.ops.empty()))
    return {Verdict::kNamed, fmt::format("warning `{}`: {}", name_of(warning->kind), first_words(warning->what, 120)),
            warning->remedy, ""};
  if (!run.incidents.empty()) return judge_incident(issue, run);
  if (!run.error.empty()) {
    const auto& words = issue.truth.refusal;
    const auto has = [&](const std::string& word) { return run.error.find(word) != std::string::npos; };
    const bool named_it = !words.empty() && std::all_of(words.begin(), words.end(), has);
    return {named_it ? Verdict::kNamed : Verdict::kWrong, "error: " + first_words(run.error, 160), "refused", ""};
  }
  const std::string others = run.warnings.empty() ? "" : fmt::format(" (warning `{}`)", name_of(run.warnings[0].kind));
  return {Verdict::kSilent, fmt::format("nothing; {} steps committed{}", run.committed, others),
          run.state_finite ? "" : "state not finite", ""};
}

std::vector<Issue> all_issues() {
  std::vector<Issue> all;
  for (const auto& group : {rounded_constants(), masks(), overflows(), range_of_f32(), singularities(), losses(),
                            data_faults(), silent_faults()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

int run_all(const std::string& only, bool markdown, bool verbose) {
  if (markdown)
    fmt::print(
        "| issue | precision | cause that the thread settled | what Binade said | remedy | verdict |\n"
        "|---|---|---|---|---|---|\n");
  std::map<Verdict, int> totals;
  int proven_wrong = 0;
  for (const Issue& issue : all_issues()) {
    if (!only.empty() && issue.name != only) continue;
    Runtime runtime({.seed = 1});
    Run run;
    try {
      issue.build(run);
      if (run.loss) run.train(runtime);
    } catch (const Error& e) {
      run.error = e.what();
    }
    const Judgement j = judge(issue, run);
    ++totals[j.verdict];
    const bool proven = !run.incidents.empty() &&
                        run.incidents.front().diagnosis.confidence == amp::Confidence::kProven;
    proven_wrong += j.verdict == Verdict::kWrong && proven ? 1 : 0;
    const std::string verdict = fmt::format("{}{}", name_of(j.verdict),
                                            j.note.empty() ? "" : fmt::format(" ({})", j.note));
    if (markdown)
      fmt::print("| [{}]({}) | {} | {} | {} | {} | {} |\n", issue.name, issue.url, issue.precision, issue.cause, j.said,
                 j.remedy, verdict);
    else
      fmt::print("{:<22} {:<28} {} | {}\n", issue.name, verdict, j.said, j.remedy);
    if (verbose) fmt::print("    expected remedy: {}\n", issue.truth.remedy);
    if (verbose && !run.incidents.empty()) {
      const amp::Incident& first = run.incidents.front();
      for (const amp::Proof& proof : first.diagnosis.proof)
        fmt::print("    {}: {}\n", proof.variant, proof.finite ? "finite" : "not finite");
      fmt::print("    to do: {}\n    error: {}\n", first.diagnosis.advice, first_words(run.error, 300));
    }
    std::fflush(stdout);
  }
  int all = 0;
  std::string text;
  for (const auto& [verdict, count] : totals) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name_of(verdict));
    all += count;
  }
  fmt::print("\n{} issues: {}; {} of the wrong ones were called proven.\n", all, text, proven_wrong);
  return totals.count(Verdict::kNotRebuilt) ? 1 : 0;
}

}  // namespace
}  // namespace binade::issues

int main(int argc, char** argv) {
  std::string only;
  bool markdown = false, verbose = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--only" && i + 1 < argc) {
      only = argv[++i];
    } else if (flag == "--markdown") {
      markdown = true;
    } else if (flag == "--verbose") {
      verbose = true;
    } else {
      fmt::print(stderr, "usage: public_issues [--only NAME] [--markdown] [--verbose]\n");
      return 20;
    }
  }
  return binade::issues::run_all(only, markdown, verbose);
}
