#pragma once

#include <string>
#include <vector>

#include "binade/doctor/report/line_chart.h"
#include "binade/doctor/report/markup.h"
#include "binade/doctor/report/run_history.h"

/// The sections of the page, from top to bottom. One that has nothing to show says so, or is empty where nobody would
/// look for it.
namespace binade::doctor::report {

/// What the run is, how far it came, its numbers at a glance.
Markup head_section(const RunHistory& history);
/// What a person should look at first.
Markup findings_section(const RunHistory& history);
/// What happened to the run, in the order of its lives.
Markup story_section(const RunHistory& history);
Markup charts_section(const RunHistory& history);
Markup headroom_section(const RunHistory& history);
Markup incidents_section(const RunHistory& history);
/// Attempts that were not committed.
Markup attempts_section(const RunHistory& history);
Markup samples_section(const RunHistory& history);
Markup checkpoints_section(const RunHistory& history);
Markup settings_section(const RunHistory& history);
/// What could not be read.
Markup troubles_section(const RunHistory& history);

/// Where an incident is told, for links: "#incident-3"; empty where it is one too many to be told.
std::string anchor_of(const RunHistory& history, const IncidentRecord& incident);
/// "step 480: corrupted-state in blocks.1.mlp.down (drill)"
std::string title_of(const IncidentRecord& incident);
/// The incidents as marks in a chart.
std::vector<Mark> marks_of(const RunHistory& history);

/// <section> with a heading.
Markup section(const char* heading, const Markup& content);
/// One row of a table, the cells as they are given.
Markup row(const char* cell, const std::vector<Markup>& cells);

}  // namespace binade::doctor::report
