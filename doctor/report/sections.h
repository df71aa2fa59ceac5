#pragma once

#include <string>
#include <vector>

#include "binade/doctor/report/line_chart.h"
#include "binade/doctor/report/markup.h"
#include "binade/doctor/report/run_history.h"

/// The sections of the page, from top to bottom. A section without content has a remark, or is omitted if it is
/// optional.
namespace binade::doctor::report {

/// Makes the head: the run's name, its state and its key numbers.
Markup head_section(const RunHistory& history);
/// Lists the findings that need attention.
Markup findings_section(const RunHistory& history);
/// Lists the run's events in order.
Markup events_section(const RunHistory& history);
/// Draws the run's curves: losses, gradient norm, learning rate, loss scale and speed.
Markup charts_section(const RunHistory& history);
/// Draws the heat map of the modules' headroom.
Markup headroom_section(const RunHistory& history);
/// Shows a card for each of the latest incidents.
Markup incidents_section(const RunHistory& history);
/// Lists the attempts that were not committed.
Markup attempts_section(const RunHistory& history);
/// Shows the samples of evaluations, texts and pictures.
Markup samples_section(const RunHistory& history);
/// Lists the checkpoints with size, trust status and score.
Markup checkpoints_section(const RunHistory& history);
/// Lists the run's settings, and the versions and hardware that it ran with.
Markup settings_section(const RunHistory& history);
/// Lists the files that could not be read.
Markup problems_section(const RunHistory& history);

/// Returns the link to an incident's card, "#incident-3"; empty if it has none, because there are too many incidents.
std::string anchor_of(const RunHistory& history, const IncidentRecord& incident);
/// Returns the title of an incident: "step 480: corrupted-state in blocks.1.mlp.down (drill)".
std::string title_of(const IncidentRecord& incident);
/// Returns the incidents as marks for a chart.
std::vector<Mark> marks_of(const RunHistory& history);

/// Makes a <section> with a heading.
Markup section(const char* heading, const Markup& content);
/// Makes a row of a table; `cell` is "td" or "th".
Markup row(const char* cell, const std::vector<Markup>& cells);

}  // namespace binade::doctor::report
