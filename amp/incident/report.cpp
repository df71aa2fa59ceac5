#include "binade/amp/incident/report.h"

#include <array>
#include <ostream>

#include "binade/core/error.h"
#include "binade/io/records/json_lines.h"

namespace binade::amp {
namespace {

std::string bracketed(const std::vector<std::int64_t>& index) {
  return io::json_array(index, [](std::int64_t i) { return std::to_string(i); });
}

std::string first_bad_json(const FirstBad& bad) {
  io::JsonObject json;
  json.add("module", bad.module)
      .add("op", bad.op)
      .add("direction", bad.direction)
      .add("tensor", bad.tensor)
      .add("dtype", bad.dtype)
      .add("value", bad.value)
      .add_raw("index", bracketed(bad.index))
      .add_raw("operand_max", io::json_array(bad.operand_max, [](double x) { return io::json_number(x); }))
      .add("step", bad.step);
  if (!bad.refusal.empty()) json.add("refusal", bad.refusal);
  if (bad.sample) json.add("sample", *bad.sample);
  if (bad.sample_id) json.add("sample_id", *bad.sample_id);
  if (!bad.parameter.empty()) json.add("parameter", bad.parameter);
  if (bad.called_by && !bad.called_by->function.empty()) json.add("function", bad.called_by->function);
  if (bad.called_by && bad.called_by->line > 0) json.add("file", bad.called_by->file).add("line", bad.called_by->line);
  return json.text();
}

std::string proof_json(const std::vector<Proof>& proof) {
  return io::json_array(proof, [](const Proof& p) {
    return io::JsonObject().add("variant", p.variant).add("finite", p.finite).text();
  });
}

std::string remedy_json(const Remedy& remedy) {
  io::JsonObject json;
  json.add("action", name_of(remedy.action)).add("what", remedy.what).add("verified", remedy.verified);
  if (!remedy.target.empty()) json.add("target", remedy.target);
  if (remedy.until_step > 0) json.add("until_step", remedy.until_step);
  if (remedy.steps_lost > 0) json.add("steps_lost", remedy.steps_lost);
  if (remedy.throughput_ratio > 0) json.add("throughput_ratio", remedy.throughput_ratio);
  if (remedy.memory_ratio > 0) json.add("memory_ratio", remedy.memory_ratio);
  return json.text();
}

std::string library_json(const LibraryFault& fault) {
  const auto quoted = [](const std::string& plan) { return io::json_string(plan); };
  return io::JsonObject().add("name", fault.library).add_raw("plans", io::json_array(fault.plans, quoted)).text();
}

}  // namespace

std::string_view name_of(RemedyAction action) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "none",     "lower-scale", "promote-op",    "quarantine-sample", "skip-batch",
      "rollback", "stop",        "mend-averages", "quarantine-plan"};
  return kNames[static_cast<std::size_t>(action)];
}

/// Prints what happened, where, why, what was done and what to do, a line each.
std::ostream& operator<<(std::ostream& out, const Incident& incident) {
  const Diagnosis& d = incident.diagnosis;
  out << fmt::format("step {}, attempt {}: {}\n  where: {}\n  why: {} ({})\n  done: {}", incident.step,
                     incident.attempt, incident.what, location_of(d), name_of(d.cause), name_of(d.confidence),
                     description_of(incident.remedy));
  if (!d.advice.empty()) out << "\n  to do: " << d.advice;
  return out;
}

std::string location_of(const Diagnosis& diagnosis) {
  if (!diagnosis.first_bad) return "no single op is to blame";
  const FirstBad& bad = *diagnosis.first_bad;
  std::string text = bad.op.empty() ? "no op" : fmt::format("'{}'", bad.op);
  if (!bad.module.empty()) text += fmt::format(" in {}", bad.module);
  text += bad.refusal.empty() ? fmt::format(" ({}): {} is {}", bad.direction, bad.tensor, bad.value)
                              : fmt::format(" ({}): {}", bad.direction, bad.refusal);
  if (!bad.index.empty()) text += fmt::format(" at {}", bracketed(bad.index));
  if (bad.sample) text += fmt::format(", sample {}", *bad.sample);
  if (bad.sample_id) text += fmt::format(" (number {} of the data set)", *bad.sample_id);
  if (bad.called_by) text += fmt::format(", called by {}", bad.called_by->text());
  return text;
}

std::string description_of(const Remedy& remedy) {
  std::string text = remedy.what;
  if (remedy.throughput_ratio > 0 && remedy.throughput_ratio < 1)
    text += fmt::format(", at {:.2f} of the speed", remedy.throughput_ratio);
  if (remedy.memory_ratio > 1) text += fmt::format(", in {:.2f} of the memory", remedy.memory_ratio);
  if (remedy.verified) text += "; a replay showed that it works";
  return text;
}

std::string report_json(const Incident& incident) {
  const Diagnosis& d = incident.diagnosis;
  io::JsonObject json;
  json.add("schema", 1)
      .add("step", incident.step)
      .add("attempt", incident.attempt)
      .add("kind", incident.warning ? "warning" : "incident");
  json.add("what", incident.what);
  if (incident.drill) json.add("drill", true);
  if (!incident.no_capsule.empty()) json.add("no_capsule", incident.no_capsule);
  if (d.first_bad) {
    json.add("micro_batch", d.first_bad->micro_batch);
    json.add_raw("first_bad", first_bad_json(*d.first_bad));
  }
  json.add_raw("cause", io::JsonObject()
                            .add("class", name_of(d.cause))
                            .add_raw("proof", proof_json(d.proof))
                            .add("confidence", name_of(d.confidence))
                            .text());
  if (d.library) json.add_raw("library", library_json(*d.library));
  json.add_raw("remedy", remedy_json(incident.remedy));
  json.add("advice", d.advice);
  json.add_raw("replay", io::JsonObject().add("steps", d.replays).add("reproducible", d.reproducible).text());
  return json.text();
}

std::string report_markdown(const Incident& incident) {
  const Diagnosis& d = incident.diagnosis;
  std::string text = incident.warning
                         ? fmt::format("# Warning after step {}\n\n", incident.step)
                         : fmt::format("# Incident in step {}, attempt {}\n\n", incident.step, incident.attempt);
  if (incident.drill) text += "**A drill: a fault was injected into this step.**\n\n";
  text += fmt::format("- **What**: {}\n", incident.what);
  text += fmt::format("- **Where**: {}\n", location_of(d));
  text += fmt::format("- **Why**: {} ({})\n", name_of(d.cause), name_of(d.confidence));
  if (d.library) {
    text += fmt::format("- **Library**: {}\n", d.library->library);
    for (const std::string& plan : d.library->plans) text += fmt::format("- **Plan**: `{}`\n", plan);
  }
  text += fmt::format("- **Done**: {}\n", description_of(incident.remedy));
  text += fmt::format("- **To do**: {}\n", d.advice);
  if (!incident.no_capsule.empty()) text += fmt::format("- **Repro bundle**: none: {}\n", incident.no_capsule);
  if (d.first_bad && !d.first_bad->operand_max.empty()) {
    text += "\nLargest operands of that op:";
    for (const double x : d.first_bad->operand_max) text += fmt::format(" {:.6g}", x);
    text += "\n";
  }
  text += fmt::format("\nThe step was run again {} time{}; {}.\n", d.replays, d.replays == 1 ? "" : "s",
                      d.reproducible ? "the same bits came out" : "the bits differed");
  if (!d.proof.empty()) {
    text += "\n| the step once more, with | finite |\n|---|---|\n";
    for (const Proof& p : d.proof) text += fmt::format("| {} | {} |\n", p.variant, p.finite ? "yes" : "no");
  }
  return text;
}

}  // namespace binade::amp
