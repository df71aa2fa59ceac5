#include "binade/amp/preflight/finding.h"

#include <fmt/format.h>

#include <ostream>

#include "binade/amp/text.h"
#include "binade/io/records/json_lines.h"

namespace binade::amp {
namespace {

std::string location_of(const PreflightFinding& f) {
  const std::string also = f.also.empty() ? "" : fmt::format(" and {} more", f.also.size());
  return quoted_op(f.op, f.module) + also;
}

std::string json_of(const Trigger& t) {
  io::JsonObject object;
  object.add("of", t.of)
      .add_raw("values", io::json_array(
                             t.values, [](double x) { return io::json_number(x); }, ","))
      .add("dtype", name_of(t.dtype))
      .add("operand", t.operand)
      .add("chain", t.chain);
  return object.text();
}

std::string json_of(const PreflightFinding& f) {
  io::JsonObject object;
  object.add("rule", f.rule)
      .add("severity", name_of(f.severity))
      .add("module", f.module)
      .add("op", f.op)
      .add("what", f.what)
      .add("advice", f.advice);
  if (f.trigger) object.add_raw("trigger", json_of(*f.trigger));
  if (!f.also.empty()) object.add_raw("also", io::json_array(f.also, io::json_string, ","));
  return object.text();
}

}  // namespace

std::string_view name_of(Severity severity) { return severity == Severity::kMeasured ? "measured" : "possible"; }

std::ostream& operator<<(std::ostream& out, const PreflightFinding& f) {
  out << f.rule << ": " << location_of(f) << ": " << f.what << "\n  ";
  if (f.trigger) out << f.trigger->chain << "; ";
  return out << f.advice;
}

void PreflightReport::add(PreflightReport other) {
  for (PreflightFinding& found : other.findings)
    if (std::ranges::none_of(findings, [&](const PreflightFinding& known) {
          return known.rule == found.rule && known.module == found.module && known.op == found.op &&
                 known.what == found.what;
        }))
      findings.push_back(std::move(found));
  loss = other.loss;
  seconds += other.seconds;
}

std::string preflight_json(const PreflightReport& report) {
  io::JsonObject object;
  object.add("findings", report.findings.size())
      .add("seconds", report.seconds)
      .add("loss", report.loss)
      .add_raw("list", io::json_array(
                           report.findings, [](const PreflightFinding& f) { return json_of(f); }, ","));
  return object.text();
}

}  // namespace binade::amp
