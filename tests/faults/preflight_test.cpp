#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/faults/run.h"

// Pre-flight of the programs of faults_test.cpp. The first batch is the one with the marked sample.
namespace binade::faults {
namespace {

using amp::PreflightFinding;
using amp::PreflightReport;

constexpr std::uint64_t kSeed = 20261122;
constexpr std::int64_t kRounds = 4;

/// Whether pre-flight can find the fault: it is in the program, its settings or its data, and is not an event during
/// training.
bool visible(const Family& family, const Plan& plan) {
  const std::string_view theme = family.theme;
  const bool in_program = theme != "hardware" && theme != "state" && theme != "gradients";
  return plan.card.incident && plan.card.place && plan.inject.empty() && (in_program || plan.adam_eps == 0);
}

bool at_place(const PreflightFinding& f, const Card& card) {
  if (card.place->direction == "optimizer") return f.rule == "optimizer-eps";
  const bool module = f.module == card.place->module || std::ranges::count(f.also, card.place->module) > 0;
  // The first op to read a batch may be the cast that the policy inserts before the op that the card names.
  const bool input = card.place->direction == "input" && f.rule == "bad-input";
  return module && (input || f.op == card.place->op);
}

std::string findings_of(const PreflightReport& report) {
  std::ostringstream text;
  for (const PreflightFinding& f : report.findings) text << "  " << f << '\n';
  return text.str();
}

TEST(PreflightOfFaults, FindsTheirPlaces) {
  const std::vector<Family> families = all_families();
  std::int64_t planted = 0, found = 0, findings = 0, right = 0;
  std::string missed;
  for (const Case& c : draw_cases(families, kSeed, kRounds * static_cast<std::int64_t>(families.size()))) {
    const Plan plan = c.family->plant(c.spot);
    if (!visible(*c.family, plan)) continue;
    const PreflightReport report = preflight(c.spot, plan);
    const auto hits = std::ranges::count_if(report.findings, [&](const auto& f) { return at_place(f, plan.card); });
    ++planted;
    found += hits > 0 ? 1 : 0;
    right += hits;
    findings += static_cast<std::int64_t>(report.findings.size());
    if (hits != 1 || report.findings.size() != 1)
      missed += fmt::format("{} {} ({} of {} in {}):\n{}", c.family->name, c.spot.to_string(), hits,
                            report.findings.size(), plan.card.place->module + "/" + plan.card.place->op,
                            findings_of(report));
  }
  const double recall = static_cast<double>(found) / static_cast<double>(planted),
               precision = static_cast<double>(right) / static_cast<double>(std::max<std::int64_t>(findings, 1));
  std::printf("%lld planted: recall %.3f, precision %.3f\n", static_cast<long long>(planted), recall, precision);
  EXPECT_GE(recall, 0.9) << missed;
  EXPECT_GE(precision, 0.8) << missed;
}

TEST(PreflightOfFaults, HasNoFindingsInControls) {
  const std::vector<Family> families = controls();
  for (const Case& c : draw_cases(families, kSeed, kRounds * static_cast<std::int64_t>(families.size()))) {
    const std::string name = c.family->name;
    // For these two controls a finding is right: an attention returns a row of zeros; a value is close to the f16
    // maximum.
    if (name == "control-row-masked-in-built-in-attention" || name == "control-large-in-range-activations") continue;
    const PreflightReport report = preflight(c.spot, c.family->plant(c.spot));
    EXPECT_TRUE(report.findings.empty()) << name << " " << c.spot.to_string() << "\n" << findings_of(report);
  }
}

}  // namespace
}  // namespace binade::faults
