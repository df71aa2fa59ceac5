#include "binade/amp/preflight/finding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ostream>

#include "binade/io/records/json_lines.h"

namespace binade::amp {
namespace {

std::string place_of(const PreflightFinding& f) {
  const std::string also = f.also.empty() ? "" : fmt::format(" and {} more", f.also.size());
  return f.module.empty() ? fmt::format("'{}'{}", f.op, also) : fmt::format("'{}' in {}{}", f.op, f.module, also);
}

template <class Items, class F>
std::string json_list(const Items& items, F&& text_of) {
  std::string list;
  for (const auto& item : items) list += (list.empty() ? "" : ",") + text_of(item);
  return "[" + list + "]";
}

std::string json_of(const Trigger& t) {
  io::JsonObject object;
  object.add("of", t.of)
      .add_raw("values", json_list(t.values, [](double x) { return io::json_number(x); }))
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
  if (!f.also.empty()) object.add_raw("also", json_list(f.also, io::json_string));
  return object.text();
}

}  // namespace

std::string_view name_of(Severity severity) { return severity == Severity::kMeasured ? "measured" : "possible"; }

std::ostream& operator<<(std::ostream& out, const PreflightFinding& f) {
  out << f.rule << ": " << place_of(f) << ": " << f.what << "\n  ";
  if (f.trigger) out << f.trigger->chain << "; ";
  return out << f.advice;
}

std::string preflight_json(const PreflightReport& report) {
  io::JsonObject object;
  object.add("findings", report.findings.size())
      .add("seconds", report.seconds)
      .add("loss", report.loss)
      .add_raw("list", json_list(report.findings, [](const PreflightFinding& f) { return json_of(f); }));
  return object.text();
}

}  // namespace binade::amp
